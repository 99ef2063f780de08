"""The planner: one plan for equal requests, honest costs, microbatches, bad requests refused."""

from __future__ import annotations

import pytest

from meshwright.schema import (
    GraphError,
    Pin,
    Request,
    RequestError,
    RuleError,
    Setup,
    SetupError,
    TooLarge,
    Topology,
)
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.planning.planner import check, plan
from tests.solver.requests import (
    mlp_request,
    planned,
    problem_of,
    refused,
    toy_request,
    transformer_mlp,
)
from tests.solver.small_graphs import GraphMaker, topology


def test_the_same_request_gets_the_same_plan():
    request = mlp_request(4, topology(2, 2))
    assert planned(request).id == planned(Request.from_json(request.to_json())).id


def test_a_plan_carries_what_evaluate_says_and_a_bound_below_it():
    request = mlp_request(4, topology(2, 4))
    found = planned(request)
    built = problem_of(request)
    assert evaluate(built, found) == found.cost
    assert found.search.cost_ns == found.cost.objective_ns
    assert 0 < found.search.lower_bound_ns <= found.cost.objective_ns
    assert found.search.gap == pytest.approx(1 - found.search.lower_bound_ns / found.search.cost_ns)
    assert found.search.outcome == "optimal"
    assert (found.graph, found.topology, found.setup) == (
        request.graph.id, request.topology.id, request.setup.id,
    )  # fmt: skip


def test_microbatches_double_until_a_plan_fits():
    def request(memory_bytes: int, microbatches: int | None = None) -> Request:
        graph = transformer_mlp(64, rows=64, width=64).graph("loss:out", loss="loss:out")
        return toy_request(
            graph=graph,
            topology=topology(2, memory_bytes=memory_bytes),
            setup=Setup(microbatches=microbatches),
        )

    roomy = planned(request(1 << 34))
    assert roomy.microbatches == 1
    limit = roomy.cost.memory_bytes.total - roomy.cost.memory_bytes.reserved
    tight = planned(request(limit // 2))
    assert tight.microbatches in (2, 4, 8)
    assert refused(request(limit // 2, 1)).constraint == "memory"
    held = tight.cost.memory_bytes
    assert held.total <= held.capacity


def test_microbatches_stop_where_the_graph_cannot_be_cut_further():
    # rows in pairs: a batch of 8 can be halved twice; the third time "batch//2" is no whole number
    maker = GraphMaker(batch=8)
    x = maker.op("linear", [maker.input("x", "batch", 512), maker.parameter("w", 512, 512)],
                 ["batch", 512], "a")  # fmt: skip
    y = maker.op("gelu", [x], ["batch", 512], "b")
    maker.op("reshape", [y], ["batch//2", 1024], "pairs")
    answer = refused(
        toy_request(graph=maker.graph("pairs:out"), topology=topology(1, memory_bytes=4_198_000))
    )
    assert answer.constraint == "memory"


def test_an_empty_graph_has_an_empty_plan():
    found = planned(toy_request(graph=GraphMaker().graph(), topology=topology(2)))
    assert (found.cost.step_ns, found.search.gap, found.stages[0].ops) == (0, 0, ())


def test_one_device_needs_no_communication():
    found = planned(mlp_request(2, topology(1, memory_bytes=1 << 40)))
    assert sum(found.cost.communication_ns.values()) == 0
    assert found.stages[0].redistributions == ()
    assert found.repeated_work == 0


def test_inference_keeps_no_gradients_and_saves_nothing():
    request = mlp_request(4, topology(2, 2))
    request = request.model_copy(update={"setup": Setup(phase="inference", microbatches=1)})
    memory = planned(request).cost.memory_bytes
    assert (memory.gradients, memory.optimizer, memory.activations) == (0, 0, 0)


def test_five_levels_are_too_many_and_said_so():
    five = topology(2, 2, 2, 2).to_dict()
    five["levels"].append({**five["levels"][-1], "name": "die"})
    with pytest.raises(TooLarge, match="5 levels"):
        plan(mlp_request(4, Topology.from_dict(five)))


@pytest.mark.parametrize("ask", [plan, check])
@pytest.mark.parametrize(
    ("change", "error", "names"),
    [
        ({"setup": Setup(microbatches=3)}, SetupError, "4 cannot be cut into 3"),
        ({"setup": Setup(global_batch=10, microbatches=5, symbols={"s": 1})}, GraphError, "'s'"),
        ({"setup": Setup(symbols={"batch": -4})}, GraphError, "-4"),
        ({"pins": (Pin(op="nothing", strategy={}),)}, RequestError, "'nothing' matches no op"),
        ({"pins": (Pin(op="up", strategy={"z": ("gpu",)}),)}, RequestError, "no factor 'z'"),
        ({"pins": (Pin(op="up", strategy={"n": ("pod",)}),)}, RequestError, "no axis 'pod'"),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(ask, change, error, names):
    request = mlp_request(4, topology(2, 2)).model_copy(update=change)
    with pytest.raises(error) as wrong:
        ask(request)
    assert names in wrong.value.detail


@pytest.mark.parametrize("flops", ["b - 1000", "b // 7"])
def test_a_rule_that_counts_no_flops_is_refused_and_its_op_named(flops):
    maker = GraphMaker()
    rule = {"notation": "b k -> b k", "flops": flops}
    maker.op("mine", [maker.parameter("p", 4, 4)], [4, 4], "strange", rule=rule)
    with pytest.raises(RuleError, match="op 'strange'"):
        plan(toy_request(graph=maker.graph("strange:out"), topology=topology(2)))
