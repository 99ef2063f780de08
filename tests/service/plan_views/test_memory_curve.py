"""Memory over a step: the parts at the peak of the curve are the memory bar, to the byte."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meshwright.schema import Plan, Recompute, ScheduleKind
from meshwright_service.plan_views.memory_curve import RankCurve, curve_of
from meshwright_service.plan_views.memory_view import RankMemory, memory_of
from meshwright_solver.simulation.step import SimulatedStep, step_of
from tests.solver.layered import layered
from tests.solver.pipeline.test_pipeline_planner import CASES, asked
from tests.solver.random_problems import Case, cases, plan_of, random_choice
from tests.solver.requests import planned


def totals(curve: RankCurve) -> list[int]:
    """The memory in use at every point, with the reserve."""
    resting = sum(curve.static_parts.values()) + curve.reserved_bytes
    return [resting + sum(parts) for parts in zip(*curve.parts.values(), strict=True)]


def assert_curves_are_the_bars(plan: Plan, step: SimulatedStep) -> None:
    memory = memory_of(plan)
    for bar in memory.ranks:
        assert sum(bar.parts.values()) == bar.total_bytes
        assert not bar.at_most
        curve = curve_of(step, bar.rank)
        assert curve.static_bytes == sum(curve.static_parts.values())
        assert curve.parts["activations"] == curve.saved_bytes
        assert curve.ns[0] == 0
        assert list(curve.ns) == sorted(curve.ns)
        assert max(totals(curve)) == bar.total_bytes
        assert_peak_is_the_bar(curve, bar)
        for points in (1, 3, 50):
            shown = curve.shown(points)
            assert shown.ns[0] == 0
            assert len(shown.ns) <= max(2, points)
            assert max(totals(shown)) == bar.total_bytes
    assert max(bar.total_bytes for bar in memory.ranks) == plan.cost.memory_bytes.total


def assert_peak_is_the_bar(curve: RankCurve, bar: RankMemory) -> None:
    assert curve.peak is not None
    assert curve.peak.bytes == bar.total_bytes
    assert curve.peak.at.endswith(curve.peak.op)
    assert curve.ns[totals(curve).index(curve.peak.bytes)] == curve.peak.ns


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 2**16))
def test_random_plans_of_one_stage(case: Case, seed: int) -> None:
    choice = random_choice(case.lowered.graph, seed)
    assume(choice is not None and case.models.problem.training)
    assert choice is not None
    plan, problem = plan_of(case, choice), case.models.problem
    step = step_of(plan, problem.graph, problem.topology, problem.setup, problem.calibration)
    assert_curves_are_the_bars(plan, step)


@pytest.mark.rotating
@pytest.mark.parametrize(("kind", "count"), CASES)
@pytest.mark.parametrize("policy", ["none", "full"])
def test_pipelines(kind: ScheduleKind, count: int, policy: str) -> None:
    request = asked(layered(tied=True), microbatches=8, schedule=kind, stages_per_rank=count)
    recompute = Recompute.model_validate({"policy": policy})
    request = request.model_copy(update={"recompute": recompute})
    plan = planned(request)
    documents = request.graph, request.topology, request.setup, request.calibration
    step = step_of(plan, *documents)
    assert_curves_are_the_bars(plan, step)
