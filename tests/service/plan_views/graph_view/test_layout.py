"""Drawings of plans: what is open is laid out, repeats are one, nothing overlaps."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from starlette.testclient import TestClient

from meshwright.reports.ops import OpShare, shares_of
from meshwright.schema import Graph, OpPlan, Plan, Setup
from meshwright_service.plan_views.graph_view.layered_layout import lay
from meshwright_service.plan_views.graph_view.modules import (
    BOXED,
    MOST_PARTS,
    Module,
    ops_in,
    tree_of,
)
from tests.service.conftest import Serve
from tests.service.shelved import store_for
from tests.solver.small_graphs import GraphMaker, topology

LAYERS = 9


@pytest.fixture
def service(serve: Serve) -> TestClient:
    return serve(workers=0)


@pytest.fixture
def plan(service: TestClient) -> Plan:
    maker = GraphMaker(batch=8)
    x = maker.input("x", "batch", 64)
    for layer in range(LAYERS):
        module = f"net.layers.{layer}"
        weight = maker.parameter(f"w{layer}", 64, 64)
        wide = maker.op("linear", [x, weight], ["batch", 64], f"{module}.up", module=module)
        made = maker.op("gelu", [wide], ["batch", 64], f"{module}.act", module=f"{module}.inner")
        x = maker.op("add", [x, made], ["batch", 64], f"{module}.add", module=module)
    head = maker.parameter("head", 32, 64)
    maker.op("linear", [x, head], ["batch", 32], "net.head", module="net")
    return store_for(service, maker.graph("net.head:out"), topology(2, 2), Setup(microbatches=1))


def drawn(service: TestClient, plan: Plan, *opened: str, **more: str) -> Any:
    answer = service.get(f"/v1/plans/{plan.id}/layout", params={"open": opened, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_only_what_is_open_is_drawn_and_repeats_are_one(service: TestClient, plan: Plan) -> None:
    closed = drawn(service, plan)
    (net,) = closed["boxes"]
    assert (net["id"], net["can_open"], net["ops"]) == ("net", True, 3 * LAYERS + 1)
    # what the first and the last layer do differs from the others
    shown = drawn(service, plan, "net", "net.layers")
    layers = [box for box in shown["boxes"] if box.get("parent") == "net.layers"]
    assert sum(box.get("times", 1) for box in layers) == LAYERS
    assert len(layers) < LAYERS
    folded = max(layers, key=lambda box: box.get("times", 1))
    assert folded["label"].endswith(f"×{folded['times']}")
    inside = drawn(service, plan, "net", "net.layers", folded["id"])
    own = [box for box in inside["boxes"] if box.get("parent") == folded["id"]]
    assert [box["label"] for box in own] == ["up", "inner", "add"]
    assert all(box["times"] == folded["times"] for box in own)


def test_costs_of_boxes_add_up_to_the_plan(service: TestClient, plan: Plan) -> None:
    compute = sum(op.compute_ns for op in plan.stages[0].ops)
    moved = sum(plan.cost.communication_ns.values())
    for opened in ((), ("net",), ("net", "net.layers")):
        boxes = drawn(service, plan, *opened)["boxes"]
        ends = [box for box in boxes if not box.get("is_open")]
        assert sum(box["compute_ns"] for box in ends) == pytest.approx(compute)
        assert sum(box["communication_ns"] for box in ends) == pytest.approx(moved)
        use = plan.cost.memory_bytes
        resting = use.parameters + use.gradients + use.optimizer
        assert sum(box["parameter_bytes"] for box in ends) == resting
        assert sum(box["ops"] for box in ends) == len(plan.stages[0].ops)


def test_boxes_lie_in_their_parents_and_beside_each_other(service: TestClient, plan: Plan) -> None:
    shown = drawn(service, plan, "net", "net.layers", "net.layers.0", "net.layers.1")
    boxes = {box["id"]: box for box in shown["boxes"]}
    for box in boxes.values():
        around = boxes.get(box.get("parent", ""), {"x": 0, "y": 0, "width": shown["width"],
                                                   "height": shown["height"]})  # fmt: skip
        assert around["x"] <= box["x"]
        assert around["y"] <= box["y"]
        assert box["x"] + box["width"] <= around["x"] + around["width"] + 0.2
        assert box["y"] + box["height"] <= around["y"] + around["height"] + 0.2
    for one, other in itertools.combinations(boxes.values(), 2):
        if one.get("parent") == other.get("parent"):
            assert not overlap(one, other), (one["id"], other["id"])


def test_edges_lead_down_and_carry_what_moves(service: TestClient, plan: Plan) -> None:
    shown = drawn(service, plan, "net", "net.layers", "net.layers.0")
    assert shown["edges"]
    ids = {box["id"] for box in shown["boxes"]}
    for edge in shown["edges"]:
        assert {edge["source"], edge["target"]} <= ids
        (_, top), (_, bottom) = edge["points"]
        assert edge.get("up") or top < bottom
        assert edge["tensors"]


def test_an_op_says_its_axes_and_its_parameters_at_rest(service: TestClient, plan: Plan) -> None:
    shown = drawn(service, plan, "net", "net.layers", "net.layers.0")
    (up,) = [box for box in shown["boxes"] if box.get("op") == "net.layers.0.up"]
    planned = next(op for op in plan.stages[0].ops if op.op == "net.layers.0.up")
    assert up["op_kind"] == "linear"
    assert up["strategy"] == {f: [*axes] for f, axes in planned.strategy.items() if axes}
    (rest,) = up["parameters"]
    assert rest["tensor"] == "w0"
    lying = next(own for own in plan.stages[0].parameters if own.tensor == "w0")
    assert rest["value"] == str(lying.value)


def test_a_search_says_what_has_to_be_open(service: TestClient, plan: Plan) -> None:
    shown = drawn(service, plan, search="LAYERS.4.ACT")
    assert shown["matches"] == 1
    (found,) = shown["found"]
    opened = drawn(service, plan, *found["open"])
    assert found["box"] in {box["id"] for box in opened["boxes"]}
    assert "found" not in drawn(service, plan, search="(a+)+$")


def test_the_same_question_has_the_same_answer(service: TestClient, plan: Plan) -> None:
    path = f"/v1/plans/{plan.id}/layout"
    answer = service.get(path, params={"open": "net"})
    tag = {"If-None-Match": answer.headers["etag"]}
    assert service.get(path, params={"open": "net"}, headers=tag).status_code == 304
    assert service.get(path, headers=tag).status_code == 200
    assert drawn(service, plan, "no.such.module") == drawn(service, plan)
    assert service.get("/v1/plans/plan_0/layout").status_code == 404


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(20))
def test_layers_of_any_graph_do_not_overlap_and_lead_down(seed: int) -> None:
    own = random.Random(seed)
    count = own.randrange(1, 60)
    sizes = [(own.uniform(10, 200), own.uniform(10, 90)) for _ in range(count)]
    edges = [(a, b) for a in range(count) for b in range(a + 1, count) if own.random() < 2 / count]
    laid = lay(sizes, edges)
    assert laid == lay(sizes, edges)
    boxes = [
        {"x": x, "y": y, "width": w, "height": h}
        for (x, y), (w, h) in zip(laid.at, sizes, strict=True)
    ]
    for one, other in itertools.combinations(boxes, 2):
        assert not overlap(one, other)
    for a, b in edges:
        assert boxes[a]["y"] + boxes[a]["height"] <= boxes[b]["y"]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= laid.width + 1e-6 for box in boxes)


def overlap(one: dict[str, float], other: dict[str, float]) -> bool:
    return (
        one["x"] < other["x"] + other["width"] - 0.2
        and other["x"] < one["x"] + one["width"] - 0.2
        and one["y"] < other["y"] + other["height"] - 0.2
        and other["y"] < one["y"] + one["height"] - 0.2
    )


def test_a_search_may_be_a_glob(service: TestClient, plan: Plan) -> None:
    assert drawn(service, plan, search="UP")["matches"] == LAYERS
    assert drawn(service, plan, search="*.Up")["matches"] == LAYERS
    assert drawn(service, plan, search="net.layers.?.up")["matches"] == LAYERS
    assert drawn(service, plan, search="up*").get("matches", 0) == 0


def test_an_op_says_how_it_reads_its_inputs(service: TestClient, plan: Plan) -> None:
    boxes = {box["id"]: box for box in drawn(service, plan, "net")["boxes"]}
    graph = Graph.from_json(service.get(f"/v1/graphs/{plan.graph}").text)
    (head,) = (own for own in shares_of(plan, graph) if own.own.op == "net.head")
    read = boxes["0:net.head"]["read"]
    said = [own.get("axes") for own in read]
    assert said == [own.axes and [list(dim) for dim in own.axes] for own in head.inputs]
    assert [own["tensor"] for own in read] == ["net.layers.8.add:out", "head"]


def test_names_with_commas_are_opened_too(service: TestClient) -> None:
    maker = GraphMaker(batch=8)
    x, weight = maker.input("x", "batch", 64), maker.parameter("w", 64, 64)
    maker.op("linear", [x, weight], ["batch", 64], "up", module="a,b")
    plan = store_for(service, maker.graph("up:out"), topology(2, 2), Setup(microbatches=1))
    assert {box["id"] for box in drawn(service, plan, "a,b")["boxes"]} == {"a,b", "0:up"}


def test_boxes_of_boxes_have_ids_of_their_own() -> None:
    tree = tree_of([_share(f"op{number}") for number in range(MOST_PARTS * BOXED + 1)])
    assert len(tree.root.parts) <= MOST_PARTS
    modules: list[Module] = []
    stack = [tree.root]
    while stack:
        modules += (own := [part for part in stack.pop().parts if isinstance(part, Module)])
        stack += own
    ids = [module.id for module in modules]
    assert len(set(ids)) == len(ids)
    assert sum(1 for _ in ops_in(tree.root)) == MOST_PARTS * BOXED + 1
    assert {f"0…{BOXED**2 - 1}", f"0…{BOXED - 1}"} < set(ids)


def _share(name: str) -> OpShare:
    return OpShare(0, OpPlan(op=name, kind="relu", rule=None), "", (), (), (), (), 0)
