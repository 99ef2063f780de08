"""Graphs and topologies as networkx graphs.

networkx is an optional dependency of the client (`pip install 'meshwright[graphs]'`). Its import
takes 0.15 s, so that the conversion of a graph imports it.

Every attribute is a string, an integer, a float or a boolean, so that every writer of networkx
accepts the graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from meshwright.schema.errors import Unavailable
from meshwright.schema.graph import DTYPE_BYTES, Graph, Op, Tensor
from meshwright.schema.topology import Link, Topology

if TYPE_CHECKING:
    import networkx as nx

ROOT = "cluster"  # the root node of a topology


def load_networkx() -> Any:
    """The module networkx; raises Unavailable if it is not installed."""
    try:
        import networkx
    except ImportError:
        raise Unavailable(
            "networkx graphs are not available: networkx is not installed. "
            "Run pip install 'meshwright[graphs]'"
        ) from None
    return networkx


def graph_to_networkx(graph: Graph) -> nx.MultiDiGraph:
    """An operator graph as a multigraph: a node per op, an edge per tensor and reading input.

    Nodes are names of ops, in the order of `graph.ops`. An edge leads from the producer of a tensor
    to a reader; the keys of edges are 0, 1, 2, ... in the order of the readers. Tensors without a
    producer have no edge; nodes count the parameters that they read.

    Bytes are those of whole tensors, at the default values of the symbols.
    """
    shapes = graph.instantiate({})
    producers = graph.producers()
    ends = {*graph.outputs, graph.loss}
    result = load_networkx().MultiDiGraph(name=graph.name, graph_id=graph.id)
    for op in graph.ops:
        parameters = [
            tensor
            for name in dict.fromkeys(op.inputs)
            if (tensor := graph.tensor(name)).role == "parameter"
        ]
        result.add_node(
            op.name,
            kind=op.kind,
            module=op.module,
            parameters=len(parameters),
            parameter_bytes=sum(_bytes(tensor, shapes[tensor.name]) for tensor in parameters),
            makes_output=not ends.isdisjoint(op.outputs),
        )
    for key, (tensor, op, position) in enumerate(_reads(graph, producers)):
        maker = producers[tensor.name]
        result.add_edge(
            maker.name,
            op.name,
            key,
            tensor=tensor.name,
            output=maker.outputs.index(tensor.name),
            input=position,
            dtype=tensor.dtype,
            shape=f"[{', '.join(map(str, tensor.shape))}]",
            bytes=_bytes(tensor, shapes[tensor.name]),
        )
    return result


def topology_to_networkx(topology: Topology) -> nx.Graph:
    """A topology as a tree: devices are its leaves, units of the levels its inner nodes.

    A node is named by its path, such as `cluster/node1/gpu3`. Its attributes are `level` (empty at
    the root), `devices` (the number below it), and `first_rank` (the lowest rank below it). Leaves
    also have `device` and `memory_bytes`. Groups of a mixed cluster are under `cluster/group0`, ...

    An edge is the link of a unit to the other units of its level. Its attributes are `bytes_per_s`
    (one direction of one port), `latency_ns`, `devices_per_port`, and `unit_bytes_per_s` (all
    devices of the unit together). The path between two devices includes the link of the slowest
    level that separates them. Each device takes 1 KB and 10 us.
    """
    result = load_networkx().Graph(name=topology.name, topology_id=topology.id)
    result.add_node(ROOT, level="", devices=topology.device_count, first_rank=0)
    if topology.uplink is None or not topology.beside:
        _add_units(result, ROOT, topology, 0)
        return result
    rank = 0
    for number, group in enumerate(topology.groups):
        assert group.uplink is not None
        name = f"{ROOT}/group{number}"
        result.add_node(name, level="group", devices=group.device_count, first_rank=rank)
        result.add_edge(ROOT, name, **_link_attributes(group.uplink, group.device_count))
        _add_units(result, name, group, rank)
        rank += group.device_count
    return result


def _reads(graph: Graph, producers: dict[str, Op]) -> Iterator[tuple[Tensor, Op, int]]:
    """Every read of a produced tensor: the tensor, the reader and the position of the input."""
    for op in graph.ops:
        for position, name in enumerate(op.inputs):
            if name in producers:
                yield graph.tensor(name), op, position


def _bytes(tensor: Tensor, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * DTYPE_BYTES[tensor.dtype]


def _add_units(result: nx.Graph, root: str, group: Topology, first_rank: int) -> None:
    units = [(root, first_rank)]
    for depth, level in enumerate(group.levels):
        devices = math.prod(below.size for below in group.levels[depth + 1 :])
        link = _link_attributes(level.link, devices)
        attributes: dict[str, str | int] = {"level": level.name, "devices": devices}
        if depth == len(group.levels) - 1:
            attributes |= {"device": group.device.name, "memory_bytes": group.device.memory_bytes}
        inner = []
        for above, rank in units:
            for position in range(level.size):
                name = f"{above}/{level.name}{position}"
                inner.append((name, rank + position * devices))
                result.add_node(name, **attributes, first_rank=inner[-1][1])
                result.add_edge(above, name, **link)
        units = inner


def _link_attributes(link: Link, devices: int) -> dict[str, str | int | float]:
    """The attributes of a link; `devices` is the number of devices of its unit."""
    return {
        "kind": link.kind,
        "bytes_per_s": link.bytes_per_s,
        "latency_ns": link.latency_ns,
        "devices_per_port": link.devices_per_port,
        "unit_bytes_per_s": devices * link.device_bytes_per_s,
    }
