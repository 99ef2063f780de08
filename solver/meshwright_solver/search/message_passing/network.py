"""A cost graph as arrays of numbers: nodes hold vectors, edges tables (`shared_tables.py`).

    weighted(states) = sum over nodes n of vectors[n][states[n]]
                     + sum over edges e of tables[e][states[tails[e]], states[heads[e]]]

with tails[e] < heads[e]; parallel edges add up. Nodes that others decide (projections) are joined
with these. Every change to a network records its inverse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph, Projection
from meshwright_solver.search.message_passing.grouping import classes
from meshwright_solver.search.message_passing.projections import Deciders
from meshwright_solver.search.message_passing.reconstruction import WayBack
from meshwright_solver.search.message_passing.shared_tables import (
    Agreement,
    Definitions,
    Diagonal,
    PickedArray,
    Sum,
)


@dataclass(slots=True)
class Network:
    """names: the graph's node for each node of the network."""

    definitions: Definitions
    count: int
    names: IntArray
    extents: IntArray
    vectors: IntArray
    tails: IntArray
    heads: IntArray
    tables: IntArray
    ways_back: list[WayBack] = field(default_factory=list)

    def wanted(self) -> IntArray:
        """The definitions that a pass over the network reads."""
        return np.unique(np.concatenate([self.vectors, self.tables]))

    def back(self, states: IntArray, known: dict[int, FloatArray]) -> IntArray:
        """The choice of the whole graph for states of the network's nodes."""
        choice = np.zeros(self.count, dtype=np.int64)
        choice[self.names] = states
        for way in reversed(self.ways_back):
            way(choice, known)
        return choice

    def wanted_back(self) -> IntArray:
        none: IntArray = np.empty(0, dtype=np.int64)
        return np.concatenate([none, *(way.wanted() for way in self.ways_back)])


def summed(definitions: Definitions, count: int, nodes: IntArray, vectors: IntArray) -> IntArray:
    """The sum of the listed vectors of every node; each node is listed at least once."""
    order = np.argsort(nodes, kind="stable")
    nodes, vectors = nodes[order], vectors[order]
    sums = np.full(count, -1, dtype=np.int64)
    turn = np.arange(len(nodes)) - np.searchsorted(nodes, nodes)
    sums[nodes[turn == 0]] = vectors[turn == 0]
    for number in range(1, turn.max(initial=0) + 1):
        here = np.flatnonzero(turn == number)
        first, class_of = classes(sums[nodes[here]], vectors[here])
        numbers = [
            definitions.number(
                Sum(int(sums[nodes[here[k]]]), int(vectors[here[k]])),
                definitions.shapes[int(vectors[here[k]])],
            )
            for k in first
        ]
        sums[nodes[here]] = np.array(numbers, dtype=np.int64)[class_of]
    return sums


def network_of(graph: CostGraph) -> Network:
    definitions = Definitions()
    deciders = Deciders.of(graph)
    rows = _edges(graph, deciders, definitions)
    tails, heads, tables = (np.concatenate(part) for part in zip(*rows, strict=True))
    turned = tails > heads
    tables[turned] = _each(tables[turned], definitions.transposed)
    tails, heads = np.minimum(tails, heads), np.maximum(tails, heads)
    loops = tails == heads
    diagonals = _each(
        tables[loops],
        lambda table: definitions.number(Diagonal(table), definitions.shapes[table][:1]),
    )
    listed = np.concatenate([deciders.roots, tails[loops]])
    vectors = np.concatenate([_leaves(graph, deciders, definitions), diagonals])
    summed_up = summed(definitions, len(graph.nodes), listed, vectors)
    names = np.flatnonzero(deciders.roots == np.arange(len(graph.nodes)))
    place = np.zeros(len(graph.nodes), dtype=np.int64)
    place[names] = np.arange(len(names))
    return Network(
        definitions=definitions,
        count=len(graph.nodes),
        names=names,
        extents=graph.extents[names],
        vectors=summed_up[names],
        tails=place[tails[~loops]],
        heads=place[heads[~loops]],
        tables=tables[~loops],
        ways_back=[deciders.way_back()],
    )


def _leaves(graph: CostGraph, deciders: Deciders, definitions: Definitions) -> IntArray:
    """The cost of every node, by the state of its root."""
    nodes = graph.nodes
    costs = np.fromiter((id(node.cost) for node in nodes), np.int64, len(nodes))
    memories = np.fromiter((id(node.memory) for node in nodes), np.int64, len(nodes))
    first, class_of = classes(costs, memories, deciders.maps)
    numbers = []
    for k in first:
        select = deciders.select(int(deciders.maps[k]))
        size = nodes[k].cost.size if select is None else len(select)
        leaf = PickedArray(nodes[k].cost, nodes[k].memory, select)
        numbers.append(definitions.number(leaf, (size,)))
    return np.array(numbers, dtype=np.int64)[class_of]


def _edges(
    graph: CostGraph, deciders: Deciders, definitions: Definitions
) -> list[tuple[IntArray, IntArray, IntArray]]:
    """Tails, heads and tables between roots, in any orientation."""
    edges = [edge for edge in graph.edges if isinstance(edge, CostEdge)]
    count = len(edges)
    tails = np.fromiter((edge.tail for edge in edges), np.int64, count)
    heads = np.fromiter((edge.head for edge in edges), np.int64, count)
    costs = np.fromiter((id(edge.cost) for edge in edges), np.int64, count)
    memories = np.fromiter((id(edge.memory) for edge in edges), np.int64, count)
    rows, columns = deciders.maps[tails], deciders.maps[heads]
    first, class_of = classes(costs, memories, rows, columns)
    numbers = []
    for k in first:
        edge = edges[k]
        select = deciders.select(int(rows[k])), deciders.select(int(columns[k]))
        shape = tuple(
            extent if chosen is None else len(chosen)
            for extent, chosen in zip(edge.cost.shape, select, strict=True)
        )
        numbers.append(definitions.number(PickedArray(edge.cost, edge.memory, *select), shape))
    tables = np.array(numbers, dtype=np.int64)[class_of]
    edge_arrays = [(deciders.roots[tails], deciders.roots[heads], tables)]
    for projection in deciders.rest:
        edge_arrays.append(_agreement(graph, deciders, definitions, projection))
    return edge_arrays


def _agreement(
    graph: CostGraph, deciders: Deciders, definitions: Definitions, projection: Projection
) -> tuple[IntArray, IntArray, IntArray]:
    tail, head = projection.tail, projection.head
    decided = deciders.select(int(deciders.maps[tail]))
    rows = projection.select if decided is None else projection.select[decided]
    columns = deciders.select(int(deciders.maps[head]))
    if columns is None:
        columns = np.arange(graph.nodes[head].cost.size)
    table = definitions.number(Agreement(rows, columns), (len(rows), len(columns)))
    ends = deciders.roots[[tail]], deciders.roots[[head]]
    return *ends, np.array([table], dtype=np.int64)


def _each(numbers: IntArray, change: Callable[[int], int]) -> IntArray:
    """The change of every number, made once for all that are equal."""
    kinds, inverse = np.unique(numbers, return_inverse=True)
    return np.array([change(int(kind)) for kind in kinds], dtype=np.int64)[inverse.reshape(-1)]
