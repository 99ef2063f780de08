"""Executions whose steps are told apart by reader and input."""

from __future__ import annotations

import pytest

from meshwright.schema import Graph, Pin, Plan, Setup
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import Problem
from meshwright_solver.verification.verify import verify
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology


def squared(*, dead_reader: bool = False) -> Graph:
    """loss = sum(h @ h), h = x @ w; a dead reader comes first and leads to no loss."""
    make = GraphMaker(batch=8)
    h = make.op("linear", [make.input("x", "batch", 8), make.parameter("w", 8, 8)], [8, 8], "h")
    outputs = [make.op("relu", [h], [8, 8], "dead")] if dead_reader else []
    product = make.op("matmul", [h, h], [8, 8], "square")
    loss = make.op("mean", [product], [], "loss", attrs={"dims": [0, 1]})
    return make.graph(*outputs, loss, loss=loss)


def planned(graph: Graph, *pins: Pin) -> tuple[Problem, Plan]:
    devices, setup = topology(2, 2), Setup(microbatches=1)
    answer = plan(toy_request(graph=graph, topology=devices, setup=setup, pins=pins))
    assert answer.plan is not None
    return problem(graph, devices, setup), answer.plan


SQUARE = Pin(op="square", strategy={"m": ("gpu",), "n": ("node",)})


def test_an_op_that_reads_one_tensor_twice_has_steps_for_either_input() -> None:
    # h rests whole: the left input takes its rows, the right one its columns
    problem_, found = planned(squared(), SQUARE, Pin(op="h", strategy={}))
    moved = {
        r.input: [step.axes for step in r.forward]
        for r in found.stages[0].redistributions
        if (r.tensor, r.op) == ("h:out", "square")
    }
    assert moved == {0: [("gpu",)], 1: [("node",)]}
    certificate = verify(problem_, found)
    assert certificate.outcome == "verified", certificate.detail


def test_steps_of_the_other_input_are_no_steps_of_this_one() -> None:
    problem_, found = planned(squared(), SQUARE, Pin(op="h", strategy={}))
    (stage,) = found.stages
    swapped = tuple(
        r.model_copy(update={"input": 1 - r.input}) if r.input is not None else r
        for r in stage.redistributions
    )
    damaged = stage.model_copy(update={"redistributions": swapped})
    certificate = verify(problem_, found.model_copy(update={"stages": (damaged,)}))
    assert certificate.outcome == "failed"
    assert "of op 'square'" in certificate.detail


@pytest.mark.parametrize("rest", [{}, {"b0": ("gpu",)}, {"n": ("node",)}])
def test_a_first_reader_without_a_gradient_does_not_keep_it_from_its_rest(
    rest: dict[str, tuple[str, ...]],
) -> None:
    certificate = verify(*planned(squared(dead_reader=True), SQUARE, Pin(op="h", strategy=rest)))
    assert certificate.outcome == "verified", certificate.detail
