"""Stages of a planned pipeline with a lighter recompute policy."""

from __future__ import annotations

import pytest

from meshwright.schedules.kinds import schedule
from meshwright.schema import Pipeline, Recompute, RecomputePolicy, Setup
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.pipeline.configurations import configurations
from meshwright_solver.pipeline.reduce_recompute import RecomputeReduction
from meshwright_solver.pipeline.stage_graph import Anatomy
from meshwright_solver.pipeline.stage_plans import StagePlans, StageWishes, plan_stages_that_fit
from meshwright_solver.pipeline.stage_problems import Staged
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology, toy_calibration
from tests.solver.stage.recompute.layers import layered

ENDLESS = Deadline.after(None)
TOLERANCE = 1e-3


def pipeline(stages: int, memory_bytes: int = 1 << 34) -> RecomputeReduction:
    """Of two layers a stage, each with a plan of its own, on two ranks."""
    graph = layered(2 * stages)
    request = toy_request(
        graph=graph,
        topology=topology(2, 2, memory_bytes=memory_bytes),
        setup=Setup(microbatches=4, memory_reserve=0.0, global_batch=1024),
        pipeline=Pipeline(ranks=2, schedule="1f1b" if stages == 2 else "interleaved_1f1b"),
        recompute=Recompute(policy="auto"),
    )
    order = schedule(request.pipeline.schedule, 2, 4, stages // 2)
    anatomy = Anatomy(graph)
    cuts = tuple(anatomy.place[f"{2 * stage}.norm"] for stage in range(1, stages))
    staged = Staged(anatomy, request.topology, request.setup, toy_calibration(), order, cuts)
    even = StageWishes.of((2 / stages,) * stages, order)
    wishes = StageWishes(even.shares, even.held, even.passing, tuple(range(stages)))
    return RecomputeReduction(request, staged, wishes, TOLERANCE, ENDLESS)


def planned(own: RecomputeReduction, policy: RecomputePolicy) -> StagePlans:
    """All stages with one policy."""
    again = own.request.model_copy(update={"recompute": Recompute(policy=policy)})
    configuration = next(
        found
        for found in configurations(again, own.staged.anatomy)
        if found.ranks * found.stages_per_rank == own.staged.schedule.stages
    )
    found = plan_stages_that_fit(again, configuration, own.staged, own.wishes, ENDLESS, TOLERANCE)
    assert isinstance(found, StagePlans)
    return found


def policies(plans: StagePlans) -> list[str]:
    return [
        "none" if own.recompute is None else own.recompute.policy for own in plans.priced.stages
    ]


@pytest.mark.parametrize("stages", [2, 4])
def test_with_memory_to_spare_nothing_is_done_again(stages: int) -> None:
    """Two notches, full to cheap to none, for each of a rank's stages."""
    own = pipeline(stages)
    found = own.of(planned(own, "full"))
    assert policies(found) == ["none"] * stages
    assert found.ns == pytest.approx(planned(own, "none").ns, rel=TOLERANCE)


def test_only_the_stage_that_has_room_does_less_again() -> None:
    """A device has a twentieth more than the first stage holds with all done again, which is of two
    microbatches. The second holds one: as much of it is saved as `cheap` does."""
    first, _ = planned(pipeline(2), "full").priced.of_ranks
    own = pipeline(2, round(1.05 * first.total))
    before = planned(own, "full")
    found = own.of(before)
    assert policies(found) == ["full", "cheap"]
    assert max(found.over_bytes) <= 0
    assert found.ns < before.ns


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_stages_of_one_rank_share_its_memory(share: float) -> None:
    """Between what a rank needs with all done again and with nothing: some, and not all of it."""
    most, least = (
        max(rank.total for rank in planned(pipeline(4), policy).priced.of_ranks)
        for policy in ("none", "full")
    )
    own = pipeline(4, round(least + share * (most - least)))
    before = planned(own, "full")
    found = own.of(before)
    assert max(found.over_bytes) <= 0
    assert found.ns < before.ns
    assert "none" in policies(found) or "cheap" in policies(found)
    assert policies(found) != ["none"] * 4
