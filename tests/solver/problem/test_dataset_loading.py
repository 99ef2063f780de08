"""How inputs are loaded: what is read otherwise is moved, priced and executed."""

from __future__ import annotations

from typing import Any

import pytest

from meshwright.schema import LayoutError, Pin, Plan, RequestError, Setup, SetupError
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.dataset_loading import with_loading
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology


def graph():
    """Rows of a table, a product and a loss, of two inputs and a label."""
    maker = GraphMaker(batch=16)
    ids = maker.input("ids", "batch", dtype="int64")
    x = maker.input("x", "batch", 64)
    rows = maker.op("embedding", [maker.parameter("table", 64, 64), ids], ["batch", 64], "rows")
    both = maker.op("add", [rows, x], ["batch", 64], "both")
    y = maker.op("linear", [both, maker.parameter("w", 64, 64)], ["batch", 64], "fc")
    label = maker.tensor("label", ["batch"], "label", dtype="int64")
    loss = maker.op("cross_entropy", [y, label], [], "loss")
    return maker.graph(loss, loss=loss)


def planned(dataset: Any, *pins: Pin, levels: tuple[int, ...] = (2, 2)) -> Plan:
    request = toy_request(
        graph=graph(), topology=topology(*levels), pins=pins,
        setup=Setup(microbatches=1, dataset=dataset), solver="dynamic_programming",
    )  # fmt: skip
    answer = plan(request)
    assert answer.plan is not None
    certificate = verify_documents(answer.plan, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified", certificate.detail
    return answer.plan


def strategy(found: Plan, op: str) -> dict[str, tuple[str, ...]]:
    (own,) = [own for own in found.stages[0].ops if own.op == op]
    return own.strategy


def moved(found: Plan, tensor: str) -> set[str]:
    """Kinds of the forward steps of a tensor."""
    return {
        step.kind
        for own in found.stages[0].redistributions
        if own.tensor == tensor
        for step in own.forward
    }


COLUMNS = Pin(op="both", strategy={"d1": ("node", "gpu")})


def test_inputs_come_as_they_are_needed_unless_it_is_said():
    for dataset in ("any", "full_batch"):
        found = planned(dataset, COLUMNS)
        assert not any(own.op.startswith("load ") for own in found.stages[0].ops)
        assert moved(found, "x") == set()


def test_loaded_by_rows_and_needed_by_columns_an_input_is_moved_and_paid_for():
    free, found = planned("any", COLUMNS), planned("data_parallel", COLUMNS)
    assert strategy(found, "load x") == {"d0": ("node", "gpu")}
    assert moved(found, "x (loaded)") == {"all_to_all"}
    assert found.cost.objective_ns > free.cost.objective_ns
    assert found.graph == free.graph == graph().id


def test_every_input_can_have_cuts_of_its_own():
    found = planned([[1], None, ["gpu"]], COLUMNS)
    assert {own.op for own in found.stages[0].ops if own.op.startswith("load ")} == {
        "load ids", "load label",
    }  # fmt: skip
    assert strategy(found, "load ids") == {}
    assert strategy(found, "load label") == {"d0": ("gpu",)}


def test_the_judge_says_the_same_of_a_plan_read_back():
    found = planned("data_parallel", COLUMNS)
    judged = problem(graph(), topology(2, 2), Setup(microbatches=1, dataset="data_parallel"))
    again = evaluate(judged, Plan.from_json(found.to_json()))
    assert again.objective_ns == pytest.approx(found.cost.objective_ns, rel=1e-9)


def test_pins_do_not_reach_what_loads():
    found = planned("data_parallel", Pin(op="*", strategy={}))
    assert strategy(found, "fc") == {}
    assert strategy(found, "load x") == {"d0": ("node", "gpu")}


def test_names_that_are_taken_are_not_taken_again():
    maker = GraphMaker(batch=16)
    x = maker.input("x", "batch", 8)
    maker.op("gelu", [x], ["batch", 8], "y")
    maker.tensors[-1]["name"] = maker.ops[-1]["outputs"][0] = "x (loaded)"
    found = with_loading(maker.graph("x (loaded)"), Setup(dataset="data_parallel"))
    assert [op.outputs for op in found.ops] == [("x (loaded)'",), ("x (loaded)",)]
    assert found.ops[1].inputs == ("x (loaded)'",)


@pytest.mark.parametrize(
    ("dataset", "error", "said"),
    [
        ([[1], None], SetupError, "cuts for 2 inputs, the graph has 3: ids, x, label"),
        ([[1, 1], None, None], RequestError, "shape [16], its cuts (1,1) are for 2 dims"),
        ([["rack"], None, None], RequestError, "no axis 'rack'"),
    ],
)
def test_cuts_that_do_not_fit_are_refused(dataset: Any, error: type[LayoutError], said: str):
    with pytest.raises(error) as wrong:
        planned(dataset)
    assert said in wrong.value.detail
