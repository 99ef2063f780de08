"""Stages of a stated pipeline share their ranks' memory as they need it."""

from __future__ import annotations

import pytest

from examples.catalogue import EXAMPLES
from meshwright.schedules.kinds import schedule
from meshwright.schema import (
    Constraints,
    Degrees,
    Infeasible,
    OptimizerParallel,
    Pipeline,
    Request,
    ScheduleKind,
    Setup,
)
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.pipeline.stage_plans import StagePlans, StageWishes, plan_stages
from meshwright_solver.pipeline.stage_problems import Staged
from meshwright_solver.planning.degrees.layer_cuts import equal_cuts
from meshwright_solver.planning.degrees.least_memory import plan_anyway
from meshwright_solver.planning.degrees.stage_shares import plan_shared
from meshwright_solver.verification.verify import verify_documents
from tests.one_stage import one_stage_request
from tests.solver.layered import layered
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import topology

ENDLESS = Deadline.after(None)


def pipeline_of(request: Request, kind: ScheduleKind, count: int) -> tuple[Configuration, Staged]:
    """Of two ranks, as `plan_stated` sets them up."""
    microbatches = request.setup.microbatches or 1
    anatomy = Anatomy(request.graph)
    order = schedule(kind, 2, microbatches, count)
    named = tuple(anatomy.place[name] for name in request.pipeline.cuts)
    cuts = named or equal_cuts(anatomy, request.setup, order.stages)
    calibration = request.calibration or default_calibration()
    staged = Staged(anatomy, request.topology, request.setup, calibration, order, cuts)
    return Configuration(2, kind, count, microbatches, cuts), staged


def in_equal_shares(request: Request, kind: ScheduleKind, count: int) -> StagePlans:
    own, staged = pipeline_of(request, kind, count)
    wishes = StageWishes.of((1 / count,) * staged.schedule.stages, staged.schedule)
    found = plan_stages(request, own, staged, wishes, ENDLESS, TOLERANCE, plan_anyway)
    assert not isinstance(found, Infeasible)
    return found


def test_a_pipeline_fits_where_equal_shares_would_not() -> None:
    """Llama-3 8B, 8 H100, microbatches of 32,768 tokens, in stages of 9, 8, 9 and 6 layers: of the
    first rank's two stages one needs more than half of the memory, the other less."""
    graph = next(own for own in EXAMPLES if own.name == "llama3-8b").load()
    request = one_stage_request(
        graph=graph,
        topology=preset("h100-1x8"),
        setup=Setup(global_batch=32, microbatches=8, symbols={"seq": 8192}),
        degrees=Degrees(tp=4, dp=1, zero=1, sequence_parallel=True),
        constraints=Constraints(optimizer_parallel=OptimizerParallel(level=1)),
        pipeline=Pipeline(
            ranks=2,
            stages_per_rank=2,
            cuts=tuple(f"model.layers.{layer}.input_layernorm" for layer in (9, 17, 26)),
        ),
        solver="dynamic_programming",
    )
    equal = in_equal_shares(request, "interleaved_1f1b", 2)
    assert max(equal.over_bytes) > 0
    own, staged = pipeline_of(request, "interleaved_1f1b", 2)
    found = plan_shared(request, own, staged, ENDLESS)
    assert not isinstance(found, Infeasible)
    assert max(found.over_bytes) <= 0
    assert found.ns < 1.02 * equal.ns


KINDS: list[tuple[ScheduleKind, int]] = [
    ("gpipe", 1), ("1f1b", 1), ("interleaved_1f1b", 2), ("interleaved_1f1b", 4), ("zb_h1", 1),
    ("zb_v", 2),
]  # fmt: skip


@pytest.mark.rotating
@pytest.mark.parametrize(("kind", "count"), KINDS)
@pytest.mark.parametrize("kilobytes", [80, 120, 160])
def test_it_is_never_worse_than_equal_shares_and_right(
    kind: ScheduleKind, count: int, kilobytes: int
) -> None:
    request = toy_request(
        graph=layered(8, batch=16),
        topology=topology(2, 2, memory_bytes=kilobytes << 10),
        setup=Setup(microbatches=8, memory_reserve=0.0),
        degrees=Degrees(tp=2, dp=1, sequence_parallel=True),
        pipeline=Pipeline(ranks=2, schedule=kind, stages_per_rank=count),
        solver="dynamic_programming",
    )
    equal = in_equal_shares(request, kind, count)
    own, staged = pipeline_of(request, kind, count)
    found = plan_shared(request, own, staged, ENDLESS)
    assert not isinstance(found, Infeasible)
    assert (max(0, *found.over_bytes), found.ns) <= (max(0, *equal.over_bytes), equal.ns)
    plan = planned(request)
    assert plan.cost.step_ns == found.ns
    certificate = verify_documents(plan, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified", certificate.detail
