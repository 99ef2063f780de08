"""Plans for jobs that run under another plan: the move counts, for the steps that are left."""

from __future__ import annotations

import math

import pytest

from meshwright.replan import keeping_its_way
from meshwright.schema import (
    Answer,
    Constraints,
    Degrees,
    Graph,
    OptimizerParallel,
    Pipeline,
    Plan,
    Request,
    RequestError,
    Setup,
    Topology,
)
from meshwright.schema.migration import PlanMove
from meshwright.schema.running_plan import Before
from meshwright_solver.layouts.transfers.plans import PlanDocuments, transfer_plans
from meshwright_solver.planning.planner import check, plan
from meshwright_solver.planning.replanning import replanned as replanned_by
from tests.one_stage import one_stage_request
from tests.runtime.models import MODELS
from tests.solver.small_graphs import topology

SETUP = Setup(global_batch=8, microbatches=2, master_dtype=None)
SMALL = Constraints(optimizer_parallel=OptimizerParallel(threshold_kb=0))


def graph() -> Graph:
    """Captured at its first use: not by processes of pytest that run none of these tests."""
    return MODELS["llama"].graph(4)


def request(devices: Topology, **more: object) -> Request:
    return one_stage_request(
        graph=graph(), topology=devices, setup=SETUP, constraints=SMALL, **more
    )


@pytest.fixture(scope="module")
def old() -> Plan:
    """Tensor parallel in a node, data parallel over two."""
    found = plan(request(topology(2, 2), degrees=Degrees(tp=2))).plan
    assert found is not None
    return found


def before(old: Plan, steps: int) -> Before:
    return Before(plan=old, topology=topology(2, 2), setup=SETUP, steps=steps)


def replanned(old: Plan, devices: Topology, steps: int) -> Plan:
    found = plan(keeping_its_way(request(devices, before=before(old, steps)))).plan
    assert found is not None
    return found


@pytest.mark.parametrize("sizes", [(2,), (2, 2), (4, 2)])
def test_the_choice_is_the_least_of_steps_and_move(old: Plan, sizes: tuple[int, ...]) -> None:
    steps = 3
    found = replanned(old, topology(*sizes), steps)
    assert found.move is not None
    chosen, other = found.move.choices
    assert {chosen.name, other.name} == {"searched", "same degrees"}
    for choice in (chosen, other):
        assert choice.step_ns is not None
        assert choice.move_ns is not None
        assert choice.total_ns == pytest.approx(steps * choice.step_ns + choice.move_ns)
    assert chosen.total_ns <= other.total_ns
    assert chosen.step_ns == found.cost.step_ns
    documents = [
        PlanDocuments(own, graph(), devices, SETUP)
        for own, devices in ((old, topology(2, 2)), (found, topology(*sizes)))
    ]
    moved = transfer_plans(*documents)
    assert (chosen.moved_bytes, chosen.move_ns) == (moved.moved_bytes, moved.ns)


def test_a_short_rest_stays_and_a_long_one_moves(old: Plan) -> None:
    # on the same devices: keeping the degrees moves nothing, the other plan saves 1 ns a step
    searched = plan(request(topology(2, 2))).plan
    assert searched is not None
    documents = [PlanDocuments(own, graph(), topology(2, 2), SETUP) for own in (old, searched)]
    move_ns = transfer_plans(*documents).ns

    def stepping(own: Plan, step_ns: float) -> Answer:
        cost = own.cost.model_copy(update={"step_ns": step_ns})
        return Answer(plan=own.model_copy(update={"cost": cost}))

    def toy(asked: Request) -> Answer:
        return stepping(searched, 999.0) if asked.degrees is None else stepping(old, 1000.0)

    def chosen(steps: int) -> PlanMove:
        asked = keeping_its_way(request(topology(2, 2), before=before(old, steps)))
        found = replanned_by(asked, toy).plan
        assert found is not None
        assert found.move is not None
        return found.move

    pays = math.ceil(move_ns)
    assert pays > 1000
    stays, moves = chosen(pays - 1), chosen(pays)
    assert [own.name for own in stays.choices] == ["same degrees", "searched"]
    assert stays.choices[0].moved_bytes == 0
    assert stays.pays_after_steps is None
    assert [own.name for own in moves.choices] == ["searched", "same degrees"]
    assert moves.pays_after_steps == pays


def test_a_way_that_does_not_fit_the_devices_says_why() -> None:
    wide = plan(request(topology(2, 2), degrees=Degrees(tp=4))).plan
    assert wide is not None
    found = replanned(wide, topology(2), 100)
    assert found.move is not None
    chosen, kept = found.move.choices
    assert chosen.name == "searched"
    assert kept.total_ns is None
    assert "tp 4 does not divide the 2 devices" in kept.why
    assert found.move.pays_after_steps is None


def test_the_way_of_a_pipeline_is_kept() -> None:
    stages = Pipeline(ranks=2, schedule="1f1b")
    found = plan(request(topology(2, 2), degrees=Degrees(tp=2), pipeline=stages)).plan
    assert found is not None
    kept = keeping_its_way(request(topology(4, 2), before=before(found, 1))).before
    assert kept is not None
    assert kept.degrees == Degrees(tp=2)
    assert (kept.pipeline.ranks, kept.pipeline.schedule) == (2, "1f1b")


def test_a_job_goes_on_with_its_graph(old: Plan) -> None:
    check(request(topology(2), before=before(old, 1)))
    with pytest.raises(RequestError, match="Use the graph of the running plan"):
        one_stage_request(graph=MODELS["gpt"].graph(4), topology=topology(2), before=before(old, 1))
