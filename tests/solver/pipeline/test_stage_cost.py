"""A stage's cost from its layouts, and from a plan that is not written for every layer."""

from __future__ import annotations

import pytest

from meshwright.schedules.kinds import schedule
from meshwright.schema import ScheduleKind, Setup
from meshwright_solver.pipeline.cost_only_plan import Sketches
from meshwright_solver.pipeline.stage_cost import passes_of, split_passes, stage_cost, whole_passes
from meshwright_solver.stage.stage_planner import plan_stage
from tests.solver.layered import layered
from tests.solver.requests import problem_of, toy_request
from tests.solver.small_graphs import topology


@pytest.mark.parametrize("kind", ["1f1b", "zb_h1"])
@pytest.mark.parametrize("layers", [2, 9])
def test_a_sketch_takes_what_the_layouts_of_the_same_plan_take(
    layers: int, kind: ScheduleKind
) -> None:
    """Two layers are not folded, nine are. Backward passes are whole, and in halves."""
    graph, devices, setup = layered(layers), topology(4, 2), Setup(microbatches=4)
    request = toy_request(graph=graph, topology=devices, setup=setup)
    sketches = Sketches()
    sketch = plan_stage(request, write=sketches.write).plan
    plan = plan_stage(request).plan
    assert sketch is not None
    assert plan is not None
    problem = problem_of(request, microbatches=4)
    order = schedule(kind, 2, 4, 1)
    folded, judged = sketches.of(sketch), stage_cost(problem, plan.stages[0], split=order.is_split)
    assert folded.cost.memory_bytes == judged.cost.memory_bytes
    assert folded.cost.objective_ns == pytest.approx(judged.cost.objective_ns)
    found = split_passes(folded) if order.is_split else whole_passes(folded)
    for name, ns in passes_of(judged.lengths).model_dump().items():
        assert getattr(found, name) == pytest.approx(ns), name
