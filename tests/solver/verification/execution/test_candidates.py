"""Top-k over a dim that devices share: each sends its best, and the best of these are kept."""

from __future__ import annotations

import pytest

from meshwright.schema import Graph, OpPlan, Pin, Plan, Setup
from meshwright_solver.planning.planner import plan
from meshwright_solver.verification.verify import verify
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology

DEVICES = topology(4)
SETUP = Setup(microbatches=1, uneven="chunk")


def network(classes: int) -> Graph:
    make = GraphMaker()
    x = make.input("x", 6, 8)
    scores = make.op("linear", [x, make.parameter("w", classes, 8)], [6, classes], "scores")
    places = make.tensor("places", [6, 3], dtype="int64")
    best = make.tensor("best", [6, 3])
    make.ops.append(
        {"name": "top", "kind": "topk", "inputs": [scores], "outputs": [best, places],
         "attrs": {"k": 3, "dim": 1}}
    )  # fmt: skip
    loss = make.op("mean", [best], [], "loss", attrs={"dims": [0, 1]})
    return make.graph(loss, loss=loss)


def planned(graph: Graph) -> tuple[Plan, OpPlan]:
    pins = (Pin(op="top", strategy={"d1": ("gpu",)}),)
    answer = plan(toy_request(graph=graph, topology=DEVICES, setup=SETUP, pins=pins))
    assert answer.plan is not None
    return answer.plan, next(op for op in answer.plan.stages[0].ops if op.op == "top")


@pytest.mark.parametrize("classes", [32, 31])
def test_the_best_of_all_parts_are_found(classes: int) -> None:
    graph = network(classes)
    found, top = planned(graph)
    forward, backward = top.own_steps
    assert (forward.what, forward.kind) == ("candidates", "all_gather")
    assert (forward.direction, backward.direction) == ("forward", "backward")
    # 6 points, 3 of every device, float32 with a place of 8 bytes
    assert forward.payload_bytes == 6 * 3 * 4 * (4 + 8)
    verified = verify(problem(graph, DEVICES, SETUP), found)
    assert verified.outcome == "verified", verified.detail


def test_candidates_left_out_are_caught() -> None:
    graph = network(32)
    found, top = planned(graph)
    stage = found.stages[0]
    silent = top.model_copy(update={"own_steps": ()})
    ops = tuple(silent if op.op == "top" else op for op in stage.ops)
    broken = found.model_copy(update={"stages": (stage.model_copy(update={"ops": ops}),)})
    assert verify(problem(graph, DEVICES, SETUP), broken).outcome == "failed"
