"""Whether microbatches take turns, where a request leaves it open."""

from __future__ import annotations

import pytest

from meshwright.launch_options import uniform_of
from meshwright.schema import Degrees, Pipeline, Plan, PlanError, Request, Setup
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.planning.planner import check, plan
from meshwright_solver.simulation.step import step_of
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import planned, problem_of, toy_request, transformer_mlp
from tests.solver.small_graphs import GraphMaker, topology

OPEN = Setup(microbatches=4, copies="auto")


def stated(setup: Setup, **rates: float) -> Request:
    """Tensor parallelism over a link on which the step waits for activations."""
    return toy_request(
        graph=transformer_mlp(64, rows=64, width=512).graph("loss:out", loss="loss:out"),
        topology=topology(4, **{"bytes_per_s": 2e10, "latency_ns": 100, **rates}),
        setup=setup,
        degrees=Degrees(tp=4),
        pipeline=Pipeline(ranks=1),
    )


def test_halves_take_turns_where_that_is_faster() -> None:
    request = stated(OPEN)
    found = planned(request)
    assert found.copies == 2
    assert found.setup == request.setup.id
    both = [planned(stated(Setup(microbatches=4, copies=own))) for own in (1, 2)]
    assert both[1].cost.step_ns < both[0].cost.step_ns
    assert found.cost == both[1].cost
    (other,) = [own for own in found.search.considered if own.configuration == "copies 1"]
    assert other.cost_ns == both[0].cost.step_ns
    assert uniform_of(found, request.graph, request.setup).copies == 2


def test_such_a_plan_is_judged_simulated_and_executed_as_it_says() -> None:
    request = stated(OPEN)
    found = planned(request)
    built = problem_of(request, microbatches=4)
    assert evaluate(built, found) == found.cost
    step = step_of(found, request.graph, request.topology, request.setup)
    assert step.ns == pytest.approx(found.cost.step_ns, rel=0.03)
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified"
    alone = found.model_copy(update={"copies": 1})
    with pytest.raises(PlanError):
        verify_documents(alone, request.graph, request.topology, request.setup)
    said = stated(Setup(microbatches=4, copies=1))
    other = found.model_copy(update={"setup": said.setup.id})
    with pytest.raises(PlanError, match="the plan has 2 copies, the setup says 1"):
        verify_documents(other, said.graph, said.topology, said.setup)


def told(found: Plan) -> bool:
    return any(own.configuration.startswith("copies") for own in found.search.considered)


def test_where_nothing_waits_halves_are_not_planned() -> None:
    found = planned(stated(OPEN, bytes_per_s=1e15, latency_ns=0))
    assert found.copies == 1
    assert not told(found)


def test_where_halves_are_refused_there_are_none() -> None:
    odd = planned(stated(Setup(microbatches=1, copies="auto")))
    assert odd.copies == 1
    maker = GraphMaker(batch=16)
    x = maker.input("x", "batch", 64, 8, 8)
    shape = ["batch", 64, 8, 8]
    x = maker.op("conv", [x, maker.parameter("w", 64, 64, 3, 3)], shape, "conv",
                 attrs={"padding": [1, 1]})  # fmt: skip
    x = maker.op(
        "batch_norm", [x, maker.parameter("scale", 64), maker.parameter("bias", 64)], shape, "norm"
    )
    loss = maker.op("mean", [x], [], "loss", attrs={"dims": [0, 1, 2, 3]})
    request = toy_request(
        graph=maker.graph(loss, loss=loss),
        topology=topology(4, bytes_per_s=1e7),
        setup=Setup(microbatches=2, copies="auto"),
    )
    check(request)
    assert planned(request).copies == 1


def test_a_pipeline_runs_its_microbatches_alone() -> None:
    request = stated(OPEN).model_copy(update={"degrees": None, "pipeline": Pipeline(ranks=2)})
    found = plan(request).plan
    assert found is not None
    assert found.copies == 1
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified"
