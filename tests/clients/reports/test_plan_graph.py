"""A plan as a networkx graph: ops, tensors, layouts, and every cost once."""

from __future__ import annotations

from math import prod

import networkx as nx
import pytest

from meshwright.reports.plan_graph import plan_graph
from meshwright.schema import Graph, Pin, Pipeline, Plan, PlanError, Recompute, Setup
from meshwright_solver.planning.planner import plan
from tests.solver.layered import layered
from tests.solver.requests import toy_request, transformer_mlp
from tests.solver.small_graphs import GraphMaker, topology


def planned(graph: Graph, *sizes: int, **wishes: object) -> Plan:
    asked = {"setup": Setup(microbatches=1), **wishes}
    found = plan(toy_request(graph=graph, topology=topology(*sizes), **asked)).plan
    assert found is not None
    return found


def pinned() -> tuple[Plan, Graph]:
    """Rows of the first product and columns of the second over two devices."""
    maker = GraphMaker(batch=8)
    x, up, down = (
        maker.input("x", "batch", 16),
        maker.parameter("u", 32, 16),
        maker.parameter("d", 8, 32),
    )
    wide = maker.op("linear", [x, up], ["batch", 32], "up")
    maker.op("linear", [wide, down], ["batch", 8], "down")
    graph = maker.graph("down:out")
    pins = (Pin(op="up", strategy={"b0": ("gpu",)}), Pin(op="down", strategy={"n": ("gpu",)}))
    return planned(graph, 2, pins=pins), graph


def test_a_redistribution_is_on_the_edge_to_its_reader() -> None:
    own, graph = pinned()
    found = plan_graph(own, graph)
    assert list(found) == ["up", "down"]
    assert found.graph["plan_id"] == own.id
    assert found.graph["meshes"] == "gpu=2"
    assert found.nodes["up"]["strategy"] == "b0=gpu"
    assert found.nodes["down"]["strategy"] == "n=gpu"
    (edge,) = (data for *_, data in found.edges(data=True))
    made = found.nodes["up"]["redistribution_ns"], edge["redistribution_ns"]
    assert edge["tensor"] == "up:out"
    assert edge["rest_layout"] == "[8@gpu, 32]"
    # all of its readers may share the steps: then they are at the op that makes it
    assert "all_gather(gpu)" in edge["collectives"] + found.nodes["up"]["collectives"]
    assert max(made) > 0
    assert edge["bytes"] == 8 * 32 * 4
    assert (edge["read_layout"], edge["layout"]) in (
        ("[8, 32]", "[8, 32]"),  # shared
        ("[8@gpu, 32]", "[8, 32]"),  # the reader's own
    )
    assert edge["device_bytes"] == edge["bytes"]


PIPELINES = {
    "one stage": (layered(3, batch=16), (2, 2), {}),
    "two stages": (layered(4, batch=16), (2, 2), {"pipeline": Pipeline(ranks=2)}),
    "virtual stages": (
        layered(4, batch=16, skip=True),
        (2, 2),
        {"pipeline": Pipeline(ranks=2, stages_per_rank=2)},
    ),
    "recomputed": (layered(3, batch=16), (2,), {"recompute": Recompute(policy="full")}),
    "transformer": (transformer_mlp(64).graph("loss:out", loss="loss:out"), (2, 4), {}),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_every_op_is_a_node_and_every_cost_is_counted_once(name: str) -> None:
    graph, sizes, wishes = PIPELINES[name]
    setup = Setup(microbatches=4) if "pipeline" in wishes else Setup(microbatches=1)
    own = planned(graph, *sizes, setup=setup, **wishes)
    found = plan_graph(own, graph)
    ops = [op for stage in own.stages for op in stage.ops]
    assert [data["op"] for _, data in found.nodes(data=True)] == [op.op for op in ops]
    assert nx.is_directed_acyclic_graph(found)
    assert nx.is_weakly_connected(found)
    sums = {
        key: sum(data[key] for _, data in found.nodes(data=True))
        for key in ("compute_ns", "communication_ns", "redistribution_ns")
    }
    assert sums["compute_ns"] == pytest.approx(sum(op.compute_ns for op in ops))
    assert sums["communication_ns"] == pytest.approx(sum(op.communication_ns for op in ops))
    on_edges = sum(data["redistribution_ns"] for *_, data in found.edges(data=True))
    moves = [move for stage in own.stages for move in stage.redistributions]
    assert sums["redistribution_ns"] + on_edges == pytest.approx(sum(move.ns for move in moves))
    again = {
        op
        for stage in own.stages
        if stage.recompute
        for s in stage.recompute.segments
        for op in s.again
    }
    assert {data["op"] for _, data in found.nodes(data=True) if data["recomputed"]} == again
    assert (name == "recomputed") <= bool(again)
    for *_, data in found.edges(data=True):
        assert data["device_bytes"] <= data["bytes"]


def test_stages_meet_where_a_tensor_is_received() -> None:
    graph, sizes, wishes = PIPELINES["virtual stages"]
    own = planned(graph, *sizes, setup=Setup(microbatches=4), **wishes)
    found = plan_graph(own, graph)
    crossing = [
        (a, b, data)
        for a, b, data in found.edges(data=True)
        if found.nodes[a]["stage"] != found.nodes[b]["stage"]
    ]
    received = [given for stage in own.stages for given in stage.receives]
    assert len(crossing) == len(received) > len(own.stages) - 1  # the skip passes by as well
    for a, b, data in crossing:
        assert found.nodes[b]["stage"] == found.nodes[a]["stage"] + 1
        assert found.nodes[b]["kind"] == "receive"
        assert b == f"{found.nodes[b]['stage']}:receive {data['tensor']}"
        shape = graph.instantiate({"batch": 16 // own.microbatches})[data["tensor"]]
        assert data["bytes"] == prod(shape) * 4


def test_views_lie_on_edges() -> None:
    """`flat` reshapes the logits for the loss: no op of the plan."""
    graph = layered(1, batch=16)
    found = plan_graph(planned(graph, 2), graph)
    assert "flat" not in found
    (edge,) = found["logits"]["loss"].values()
    assert (edge["tensor"], edge["read_as"]) == ("logits:out", "flat:out")


def test_another_graph_is_refused() -> None:
    own, _ = pinned()
    with pytest.raises(PlanError, match="the plan was made for the graph"):
        plan_graph(own, layered(2))


@pytest.mark.parametrize(("name", "kind"), [("bell \a", "gelu"), ("receive nothing", "receive")])
def test_ops_that_no_graph_has_are_refused(name: str, kind: str) -> None:
    own, graph = pinned()
    (stage,) = own.stages
    forged = stage.like(ops=(*stage.ops, stage.ops[0].like(op=name, kind=kind)))
    with pytest.raises(PlanError, match="does not belong to its graph"):
        plan_graph(own.like(stages=(forged,)), graph)
