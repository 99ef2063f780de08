"""Steps of whole plans: nothing is lost or counted twice, and what is hidden can be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meshwright.schema import Plan, PlanError, Request, Setup
from meshwright.schema.pipeline import NO_PIPELINE
from meshwright_costmodel.calibrations import datasheet_calibration, published_calibration
from meshwright_solver.simulation.step import SimulatedStep, step_of
from meshwright_solver.simulation.summary import rank_step, simulate_documents, simulation_of
from meshwright_solver.simulation.tasks import Kind
from meshwright_solver.verification.verify import verify_documents
from tests.solver.layered import layered
from tests.solver.pipeline.test_pipeline_planner import CASES, DEVICES, asked
from tests.solver.random_problems import Case, cases, plan_of, random_choice
from tests.solver.requests import planned, toy_request, transformer_mlp
from tests.solver.small_graphs import topology, toy_calibration


def simulated(request: Request, plan: Plan) -> SimulatedStep:
    return step_of(plan, request.graph, request.topology, request.setup, request.calibration)


def has_dead_ends(case: Case) -> bool:
    """Whether an op reads a value with gradient and makes none: the judge counts its way back."""
    models = case.models
    return any(
        models.problem.tensors[value.root].has_gradient and not models.ops.model(at).runs_backward
        for value in models.values.values
        for at, _ in value.readers
    )


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 2**16))
def test_random_plans_run_what_the_judge_counts(case: Case, seed: int) -> None:
    assume(not has_dead_ends(case))
    choice = random_choice(case.lowered.graph, seed)
    assume(choice is not None)
    assert choice is not None
    plan, problem = plan_of(case, choice), case.models.problem
    step = step_of(plan, problem.graph, problem.topology, problem.setup, problem.calibration)
    own, cost = rank_step(step, 0), plan.cost
    assert own.compute_ns == pytest.approx(cost.compute_ns)
    for traffic, ns in cost.communication_ns.items():
        assert own.communication_ns[traffic] == pytest.approx(ns, abs=1e-6), traffic  # type: ignore[index]  # the same names
    waited = sum(own.exposed_ns.values())
    assert step.ns == pytest.approx(own.compute_ns + waited + own.bubble_ns)
    assert own.bubble_ns == pytest.approx(0, abs=1e-6)
    assert waited <= sum(cost.communication_ns.values()) + 1e-6
    # no stream does two things at once, and nothing starts before what it needs has ended
    lines, ran = step.program.lines, step.run
    assert (ran.starts[lines.target] >= ran.ends[lines.source]).all()
    for stream in np.unique(lines.stream_of):
        here = np.flatnonzero(lines.stream_of[lines.lane] == stream)
        here = here[np.lexsort((ran.ends[here], ran.starts[here]))]
        assert (ran.ends[here[:-1]] <= ran.starts[here[1:]]).all()


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 2**16))
def test_memory_rises_to_what_the_judge_counts_and_falls_to_nothing(case: Case, seed: int) -> None:
    choice = random_choice(case.lowered.graph, seed)
    assume(choice is not None and case.models.problem.training)
    assert choice is not None
    plan, problem = plan_of(case, choice), case.models.problem
    step = step_of(plan, problem.graph, problem.topology, problem.setup, problem.calibration)
    own, memory = rank_step(step, 0), plan.cost.memory_bytes
    assert own.static_bytes == pytest.approx(
        memory.parameters + memory.gradients + memory.optimizer, abs=len(plan.stages[0].parameters)
    )
    # all that is saved is there when the forward pass ends
    assert own.saved_bytes == pytest.approx(memory.activations, abs=len(case.models.values.values))
    assert own.peak_bytes == pytest.approx(
        memory.total - memory.reserved, abs=len(plan.stages[0].parameters)
    )
    assert_everything_is_given_back(step, 0)


def assert_everything_is_given_back(step: SimulatedStep, rank: int) -> None:
    curve = step.curve(rank)
    assert (curve.saved[-1], curve.working[-1]) == (0, 0)
    assert curve.saved.min() == 0
    assert curve.working.min() == 0
    assert (np.diff(curve.ns) >= 0).all()


@pytest.mark.rotating
@pytest.mark.parametrize(("kind", "count"), CASES)
@pytest.mark.parametrize("shape", ["plain", "tied", "skip"])
def test_pipelines_run_what_their_stages_count(kind: str, count: int, shape: str) -> None:
    graph = layered(tied=shape == "tied", skip=shape == "skip")
    request = asked(graph, schedule=kind, stages_per_rank=count)
    plan = planned(request)
    step = simulated(request, plan)
    ranks = [rank_step(step, rank) for rank in range(2)]
    longest = max(ranks, key=lambda own: own.compute_ns + sum(own.communication_ns.values()))
    assert longest.compute_ns == pytest.approx(plan.cost.compute_ns)
    for traffic in ("activation", "parameter", "gradient"):
        full = plan.cost.communication_ns[traffic]
        assert longest.communication_ns[traffic] == pytest.approx(full), traffic
    for own in ranks:
        waited = sum(own.exposed_ns.values()) + own.bubble_ns
        assert step.ns == pytest.approx(own.compute_ns + waited)
        stages = [plan.stages[stage] for stage in own.stages]
        sent = plan.microbatches * sum(
            (given.forward_ns if to is not stage else 0) + (given.backward_ns if to is stage else 0)
            for stage in stages
            for to in plan.stages
            for given in to.receives
            if to is stage or plan.stages.index(to) == plan.stages.index(stage) + 1
        )
        assert own.communication_ns["pipeline"] == pytest.approx(sent)
        # what waits for weights' halves and was never saved is working here
        assert own.saved_bytes <= sum(
            stage.memory_bytes.activations for stage in stages if stage.memory_bytes
        )
        if len(stages) == 1:
            assert stages[0].memory_bytes is not None
            assert own.peak_bytes == stages[0].memory_bytes.total - stages[0].memory_bytes.reserved
        assert_everything_is_given_back(step, own.rank)
    memory = plan.cost.memory_bytes
    assert max(own.peak_bytes for own in ranks) == memory.total - memory.reserved


@pytest.mark.parametrize("kind", ["gpipe", "1f1b"])
def test_a_rank_saves_what_it_holds_in_flight(kind: str) -> None:
    request = asked(layered(), microbatches=8, schedule=kind, cuts=("2.linear",))
    plan = planned(request)
    step = simulated(request, plan)
    for rank, stage in enumerate(plan.stages):
        assert stage.memory_bytes is not None
        assert rank_step(step, rank).saved_bytes == stage.memory_bytes.activations


def test_one_device_waits_for_nothing() -> None:
    graph = layered()
    request = toy_request(graph=graph, topology=topology(1), setup=Setup(microbatches=2))
    plan = planned(request)
    made = simulate_documents(plan, graph, request.topology, request.setup)
    assert made.step_ns == pytest.approx(plan.cost.step_ns)
    assert made.predicted_ns == plan.cost.step_ns
    assert sum(made.ranks[0].exposed_ns.values()) == 0
    assert made.exposures == ()


def test_reductions_hide_behind_the_backward_pass() -> None:
    """Data parallel over a slow link: every gradient but the first op's has the backward pass of
    the ops before it to hide in; what is waited for is what comes last, and no more than all."""
    request = toy_request(
        graph=transformer_mlp(64).graph("loss:out", loss="loss:out"),
        topology=topology(1, 4, flops_per_s=1e12),
        setup=Setup(microbatches=1),
    )
    plan = planned(request)
    step = simulated(request, plan)
    own = rank_step(step, 0)
    assert own.communication_ns["gradient"] > 0
    assert own.exposed_ns["gradient"] < own.communication_ns["gradient"] / 2
    gradients = np.flatnonzero(step.program.kind == Kind.GRADIENT)
    assert step.run.ends[gradients].max() <= step.ns


def test_the_longest_waits_come_first_and_add_up() -> None:
    request = asked(layered(6), microbatches=8, schedule="1f1b")
    made = simulation_of(simulated(request, planned(request)))
    waits = [own.waited_ns for own in made.exposures]
    assert waits == sorted(waits, reverse=True)
    assert sum(waits) == pytest.approx(sum(sum(own.exposed_ns.values()) for own in made.ranks))


@pytest.mark.parametrize("schedule", [None, "1f1b"])
def test_plans_by_a_calibration_of_the_planner_s_are_found_right_without_it(
    schedule: str | None,
) -> None:
    """Whichever of them is the default."""
    for calibration in (datasheet_calibration(), published_calibration()):
        own: dict[str, object] = {"calibration": calibration}
        request = asked(layered(), schedule=schedule or "1f1b")
        if schedule is None:
            own["pipeline"] = NO_PIPELINE
        plan = planned(request.model_copy(update=own))
        assert plan.calibration == calibration.id
        documents = request.graph, request.topology, request.setup
        assert step_of(plan, *documents).ns > 0
        assert verify_documents(plan, *documents).outcome == "verified"


def test_other_documents_are_refused() -> None:
    request = asked(layered(), schedule="1f1b")
    plan = planned(request)
    with pytest.raises(PlanError, match="for the setup"):
        step_of(plan, request.graph, DEVICES, Setup(microbatches=8))
    other = toy_calibration().model_copy(update={"launch_ns": 1})
    with pytest.raises(PlanError, match="was priced with"):
        step_of(plan, request.graph, DEVICES, request.setup, other)
    several = plan.model_copy(update={"schedule": None})
    with pytest.raises(PlanError, match="no schedule"):
        step_of(several, request.graph, DEVICES, request.setup)
