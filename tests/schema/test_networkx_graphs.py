"""Graphs and topologies as networkx graphs: every op, tensor, device and link is there."""

from __future__ import annotations

import subprocess
import sys

import networkx as nx
import pytest

from meshwright.schema import Graph, Topology, Unavailable
from tests.solver.layered import layered
from tests.solver.mixed import beside, kind
from tests.solver.small_graphs import GraphMaker, topology

PLAIN = (str, int, float, bool)


def square() -> Graph:
    """y = x @ w in two parts; z = y0 * y0 + y1, where the product reads one tensor twice."""
    maker = GraphMaker(batch=8)
    x, weight = maker.input("x", "batch", 4), maker.parameter("w", 6, 4)
    made = maker.op("linear", [x, weight], ["batch", 6], "up")
    first, second = maker.split(made, [["batch", 3], ["batch", 3]], 1, "parts")
    product = maker.op("mul", [first, first], ["batch", 3], "mul")
    return maker.graph(maker.op("add", [product, second], ["batch", 3], "add"))


def test_ops_are_nodes_and_tensors_are_edges() -> None:
    found = square().to_networkx()
    assert list(found) == ["up", "parts", "mul", "add"]
    assert found.graph["graph_id"] == square().id
    assert found.nodes["up"] == {
        "kind": "linear",
        "module": "",
        "parameters": 1,
        "parameter_bytes": 6 * 4 * 4,
        "makes_output": False,
    }
    assert found.nodes["add"]["makes_output"]
    # the split's first result is read twice by one op, the second by another
    assert list(found.edges(keys=True)) == [
        ("up", "parts", 0),
        ("parts", "mul", 1),
        ("parts", "mul", 2),
        ("parts", "add", 4),
        ("mul", "add", 3),
    ]
    assert [found["parts"]["mul"][key]["input"] for key in (1, 2)] == [0, 1]
    assert found["parts"]["add"][4] == {
        "tensor": "parts:1",
        "output": 1,
        "input": 1,
        "dtype": "float32",
        "shape": "[batch, 3]",
        "bytes": 8 * 3 * 4,
    }


def test_the_graph_of_networkx_has_the_order_of_the_program() -> None:
    graph = layered(3, tied=True, skip=True)
    found = graph.to_networkx()
    assert nx.is_directed_acyclic_graph(found)
    assert nx.is_weakly_connected(found)
    made = {name for op in graph.ops for name in op.outputs}
    assert found.number_of_edges() == sum(name in made for op in graph.ops for name in op.inputs)
    # the embedding's weights are read by the classifier too
    assert [op for op, own in found.nodes(data=True) if own["parameter_bytes"] == 32 * 64 * 4] == [
        "embed",
        "logits",
    ]


def test_a_loss_dominates_what_only_it_reads() -> None:
    """Dominators of the reversed graph: without skip, all goes through every layer's sum."""
    found = layered(3).to_networkx().reverse()
    dominators = nx.immediate_dominators(found, "loss")
    assert dominators["2.add"] == "logits"
    assert dominators["1.add"] == "2.add"
    skipped = nx.immediate_dominators(layered(3, skip=True).to_networkx().reverse(), "loss")
    assert skipped["0.add"] == "skip"


def test_devices_are_leaves_and_links_are_edges() -> None:
    cluster = topology(2, 3)
    found = cluster.to_networkx()
    assert nx.is_tree(found)
    assert found.graph["topology_id"] == cluster.id
    leaves = {name: own for name, own in found.nodes(data=True) if "device" in own}
    assert [own["first_rank"] for own in leaves.values()] == list(range(6))
    assert list(leaves)[4] == "cluster/node1/gpu1"
    assert found.nodes["cluster/node1"] == {"level": "node", "devices": 3, "first_rank": 3}
    uplink = found.edges["cluster", "cluster/node1"]
    node, gpu = cluster.levels
    assert uplink["bytes_per_s"] == node.link.bytes_per_s
    assert uplink["unit_bytes_per_s"] == 3 * node.link.device_bytes_per_s
    # between nodes the slowest link is on the way, within one it is not
    for ranks, slowest in (
        (("node0/gpu0", "node1/gpu2"), node),
        (("node0/gpu0", "node0/gpu2"), gpu),
    ):
        way = nx.shortest_path(found, *(f"cluster/{rank}" for rank in ranks))
        assert min(found.edges[own]["bytes_per_s"] for own in nx.utils.pairwise(way)) == (
            slowest.link.bytes_per_s
        )


@pytest.mark.parametrize("sizes", [(1,), (4,), (2, 2, 2), (2, 1, 2, 3)])
def test_every_device_is_there_once(sizes: tuple[int, ...]) -> None:
    cluster = topology(*sizes)
    found = cluster.to_networkx()
    ranks = [own["first_rank"] for _, own in found.nodes(data=True) if "device" in own]
    assert ranks == list(range(cluster.device_count))
    assert nx.is_tree(found)
    for name, own in found.nodes(data=True):
        below = nx.bfs_tree(found, "cluster").subgraph(
            nx.descendants(nx.bfs_tree(found, "cluster"), name)
        )
        assert own["devices"] == max(1, sum("device" in found.nodes[node] for node in below))


def test_groups_of_a_mixed_cluster_meet_at_the_root() -> None:
    cluster: Topology = beside(kind("fast", 2, 2), kind("slow", 3))
    found = cluster.to_networkx()
    assert list(found["cluster"]) == ["cluster/group0", "cluster/group1"]
    assert nx.is_tree(found)
    devices = {
        own["first_rank"]: own["device"] for _, own in found.nodes(data=True) if "device" in own
    }
    assert [devices[rank] for rank in range(7)] == ["fast"] * 4 + ["slow"] * 3
    assert found.nodes["cluster/group1"] == {"level": "group", "devices": 3, "first_rank": 4}


def test_attributes_are_of_types_that_every_format_has() -> None:
    for found in (square().to_networkx(), topology(2, 2).to_networkx()):
        for own in (*found.nodes.values(), *found.edges.values(), found.graph):
            assert {type(value) for value in own.values()} <= set(PLAIN)


def test_networkx_is_needed_only_when_a_graph_is_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    for document in (square(), topology(2)):
        with pytest.raises(Unavailable, match=r"pip install 'meshwright\[graphs\]'"):
            document.to_networkx()


@pytest.mark.parametrize(
    "module",
    ["meshwright.cli", "meshwright_solver.planning.planner", "meshwright_service.cli.main",
     "meshwright_service.api.app", "meshwright_service.workers.worker"],
)  # fmt: skip
def test_no_start_up_imports_networkx(module: str) -> None:
    code = f"import sys, {module}; sys.exit('networkx' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], check=False, timeout=120)
    assert ran.returncode == 0
