"""Schedules of finished plans: nothing overlaps, nothing is early, and the parts add up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.schedules.schedule import Pass
from meshwright.schema import Passes, Plan, PlanError, Received, Schedule, ScheduleKind
from meshwright_solver.pipeline.plan_schedule import PlanSchedule
from meshwright_solver.simulation.step import step_of
from tests.solver.layered import layered
from tests.solver.pipeline.test_pipeline_planner import CASES, asked
from tests.solver.requests import planned

TIMES = st.floats(1.0, 1000.0)
ONCE = st.floats(0.0, 1000.0)
TOY: list[Plan] = []  # planned once


def toy_plan() -> Plan:
    if not TOY:
        TOY.append(planned(asked(layered(), schedule="1f1b")))
    return TOY[0]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans of any schedule, with any times of passes and transfers."""
    kind, count = draw(st.sampled_from(CASES))
    ranks, rounds = draw(st.integers(2, 6)), draw(st.integers(1, 4))
    if kind == "interleaved_1f1b":
        count = draw(st.integers(1, 3))
    microbatches = ranks * rounds
    stage = toy_plan().stages[-1]
    stages = []
    for number in range(ranks * count):
        passes = Passes(
            forward_ns=draw(TIMES),
            inputs_ns=draw(TIMES),
            weights_ns=draw(TIMES),
            begin_ns=draw(ONCE),
            step_ns=draw(ONCE),
        )
        sent = Received(tensor="x", bytes=1, forward_ns=draw(ONCE), backward_ns=draw(ONCE))
        receives = (sent,) if number else ()
        stages.append(stage.model_copy(update={"passes": passes, "receives": receives}))
    schedule = Schedule(kind=kind, ranks=ranks, stages_per_rank=count)
    changes = {"stages": tuple(stages), "schedule": schedule, "microbatches": microbatches}
    return toy_plan().model_copy(update=changes)


@settings(max_examples=150, deadline=None)
@given(plans())
def test_passes_run_in_order_and_add_up_to_the_step(plan: Plan) -> None:
    made = PlanSchedule.of(plan)
    ends: dict[tuple[int, int, int], float] = {}
    starts: dict[tuple[int, int, int], float] = {}
    for rank in range(made.table.ranks):
        rows, rank_starts, rank_ends = made.passes(rank)
        assert (rank_starts[1:] >= rank_ends[:-1] - 1e-6).all()  # no two passes at once
        keys = [(stage, what, number) for stage, what, number in rows.tolist()]
        starts |= dict(zip(keys, rank_starts.tolist(), strict=True))
        ends |= dict(zip(keys, rank_ends.tolist(), strict=True))
        parts = made.waits_ns(rank) + (rank_ends - rank_starts).sum() + made.end_ns[rank]
        assert parts + made.bubble_ns(rank) == pytest.approx(made.ns)
        bubbles = made.bubbles(rank)
        assert (bubbles[:, 1] - bubbles[:, 0]).sum() == pytest.approx(
            made.bubble_ns(rank), abs=1e-3 * len(rank_ends)
        )
        for start, end in bubbles.tolist():  # no pass runs in a bubble
            assert ((rank_ends <= start + 1e-6) | (rank_starts >= end - 1e-6)).all()
        assert rank_ends[-1] + made.end_ns[rank] <= made.ns + 1e-6
    for (stage, what, number), start in starts.items():
        needs = [(stage, Pass.F, number)] if what != Pass.F else []
        if what == Pass.W:
            needs.append((stage, Pass.I, number))
        if what == Pass.F and stage:
            needs.append((stage - 1, Pass.F, number))
        if what in (Pass.B, Pass.I) and stage + 1 < len(plan.stages):
            needs.append((stage + 1, what, number))
        for need in needs:
            assert start >= ends[need] - 1e-6, (stage, what, number, need)
    # every stage runs every pass over every microbatch
    kinds = len({what for _, what, _ in starts})
    assert len(starts) == len(plan.stages) * plan.microbatches * kinds


@pytest.mark.rotating
@pytest.mark.parametrize(("kind", "count"), CASES)
@pytest.mark.parametrize("microbatches", [4, 8])
def test_the_step_and_the_bubble_are_those_of_the_plan(
    kind: ScheduleKind, count: int, microbatches: int
) -> None:
    request = asked(layered(), microbatches=microbatches, schedule=kind, stages_per_rank=count)
    plan = planned(request)
    made = PlanSchedule.of(plan)
    assert made.ns == pytest.approx(plan.cost.step_ns)
    bubbles = [made.bubble_ns(rank) for rank in range(made.table.ranks)]
    assert min(abs(bubble - plan.cost.bubble_ns) for bubble in bubbles) <= 1e-6 * made.ns
    assert 0 <= made.bubble_share < 1
    step = step_of(plan, request.graph, request.topology, request.setup)
    assert made.ns == pytest.approx(step.ns, rel=0.03)
    for rank in range(made.table.ranks):
        rows, _, _ = made.passes(rank)
        order = [
            (place.stage, place.part, place.microbatch)
            for place in step.program.made[rank]
            if place.part.is_pass
        ]
        assert np.array_equal(rows, np.array(order))


def test_a_plan_of_one_stage_has_no_schedule() -> None:
    plan = toy_plan().model_copy(update={"schedule": None})
    with pytest.raises(PlanError, match="several stages"):
        PlanSchedule.of(plan)
