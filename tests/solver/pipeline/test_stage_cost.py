"""A stage's cost from its layouts, and from a plan that is not written for every layer."""

from __future__ import annotations

import pytest

from costmodel.calibrations import default_calibration
from meshwright.schema import Request, Setup
from solver.pipeline.sketch import Sketches
from solver.pipeline.stage_cost import folded_cost, stage_cost
from solver.problem import build_problem
from solver.stage_planner import plan_stage
from tests.solver.pipeline.layered import layered
from tests.solver.small_graphs import topology


@pytest.mark.parametrize("layers", [2, 9])
def test_a_sketch_costs_what_the_layouts_of_the_same_plan_cost(layers: int) -> None:
    """Two layers are not folded, nine are."""
    graph, devices, setup = layered(layers), topology(4, 2), Setup(microbatches=4)
    request = Request(graph=graph, topology=devices, setup=setup)
    sketches = Sketches()
    sketch = plan_stage(request, write=sketches.write).plan
    plan = plan_stage(request).plan
    assert sketch is not None
    assert plan is not None
    problem = build_problem(graph, devices, setup, default_calibration(), 4)
    found, judged = folded_cost(sketches.of(sketch)), stage_cost(problem, plan.stages[0])
    assert found.cost.memory_bytes == judged.cost.memory_bytes
    assert found.cost.step_ns == pytest.approx(judged.cost.step_ns)
    for name, ns in judged.passes.model_dump().items():
        assert getattr(found.passes, name) == pytest.approx(ns), name
