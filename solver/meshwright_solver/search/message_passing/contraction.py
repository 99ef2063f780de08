"""Contraction of a network: many equal nodes are removed at once, without loss:

    a leaf       becomes a vector of its neighbour
    a node       between two others becomes a table between those

Each kind is computed once. Nodes stay where their removal would need too many tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.search.message_passing.grouping import by_number, classes
from meshwright_solver.search.message_passing.network import Network, summed
from meshwright_solver.search.message_passing.shared_tables import (
    Definitions,
    Product,
    VectorMinimum,
)

_LEAF_ROUNDS = 4  # chosen: leaves of leaves of leaves; longer chains cost the later steps little
_LEAF_ENTRIES = 20_000_000  # chosen: entries read to make the vectors of one round; 0.05 s
_TABLE_ENTRIES = 2_000_000  # measured: of tables made; with more, fewer of them stay in a cache
_LEAST_ALIKE = 4  # chosen: a table for fewer nodes costs more than it saves


@dataclass(frozen=True, slots=True)
class RemovedLeaves:
    """Removed leaves: tables[i] joins nodes[i] to others[i], the leaf's states first."""

    nodes: IntArray
    others: IntArray
    vectors: IntArray
    tables: IntArray

    def __call__(self, states: IntArray, known: dict[int, FloatArray], /) -> None:
        first, kinds = classes(self.vectors, self.tables)
        for kind, places in by_number(kinds):
            k = first[kind]
            total = known[int(self.vectors[k])][:, None] + known[int(self.tables[k])]
            states[self.nodes[places]] = total.argmin(axis=0)[states[self.others[places]]]

    def wanted(self) -> IntArray:
        return np.unique(np.concatenate([self.vectors, self.tables]))


@dataclass(frozen=True, slots=True)
class RemovedMiddles:
    """Removed nodes between left[i] and right[i]; both tables have the states of nodes[i] first."""

    nodes: IntArray
    left: IntArray
    right: IntArray
    vectors: IntArray
    to_left: IntArray
    to_right: IntArray

    def __call__(self, states: IntArray, known: dict[int, FloatArray], /) -> None:
        first, kinds = classes(self.vectors, self.to_left, self.to_right)
        for kind, places in by_number(kinds):
            k = first[kind]
            to_left = known[int(self.to_left[k])].T
            to_right = known[int(self.to_right[k])].T
            rows, at = np.unique(
                np.stack([states[self.left[places]], states[self.right[places]]]),
                axis=1,
                return_inverse=True,
            )
            total = known[int(self.vectors[k])] + to_left[rows[0]] + to_right[rows[1]]
            states[self.nodes[places]] = total.argmin(axis=1)[at.reshape(-1)]

    def wanted(self) -> IntArray:
        return np.unique(np.concatenate([self.vectors, self.to_left, self.to_right]))


def contracted(network: Network) -> Network:
    """The network without the leaves and between-nodes that have many equals."""
    for _ in range(_LEAF_ROUNDS):
        if not _absorb(network):
            break
    _bypass(network)
    return network


def _absorb(network: Network) -> bool:
    degrees = _degrees(network)
    ends = np.concatenate([network.tails, network.heads])
    others = np.concatenate([network.heads, network.tails])
    edges = np.tile(np.arange(len(network.tails)), 2)
    # of two leaves joined to each other only the first is removed
    here = np.flatnonzero((degrees[ends] == 1) & ((degrees[others] > 1) | (ends < others)))
    if not len(here):
        return False
    nodes, others, edges = ends[here], others[here], edges[here]
    tables = _oriented(network, edges, nodes)
    first, kinds = classes(network.vectors[nodes], tables)
    definitions = network.definitions
    work = sum(int(np.prod(definitions.shapes[tables[k]])) for k in first)
    if work > _LEAF_ENTRIES:
        return False
    vector_numbers = np.array(
        [
            definitions.number(
                VectorMinimum(int(network.vectors[nodes[k]]), int(tables[k])),
                definitions.shapes[tables[k]][1:],
            )
            for k in first
        ]
    )[kinds]
    network.ways_back.append(
        RemovedLeaves(network.names[nodes], network.names[others], network.vectors[nodes], tables)
    )
    listed = np.concatenate([np.arange(len(network.names)), others])
    vectors = np.concatenate([network.vectors, vector_numbers])
    network.vectors = summed(definitions, len(network.names), listed, vectors)
    _take_out(network, nodes, edges)
    return True


def _bypass(network: Network) -> bool:
    degrees = _degrees(network)
    count = len(network.names)
    ends = np.concatenate([network.tails, network.heads])
    order = np.argsort(ends, kind="stable")
    starts = np.searchsorted(ends[order], np.arange(count))
    two = np.flatnonzero(degrees == 2)
    edges = np.stack([order[starts[two]], order[starts[two] + 1]]) % max(len(network.tails), 1)
    others = np.where(network.tails[edges] == two, network.heads[edges], network.tails[edges])
    extents = network.extents
    a, b, extent = extents[others[0]], extents[others[1]], extents[two]
    fits = (others[0] != others[1]) & (a * b <= extent * (a + b))
    two, others, edges = two[fits], others[:, fits], edges[:, fits]
    most_first = np.argsort(-extents[two], kind="stable")
    chosen = np.sort(_apart(two, others, most_first, count))
    two, others, edges = two[chosen], others[:, chosen], edges[:, chosen]
    swap = others[0] > others[1]
    others[:, swap], edges[:, swap] = others[::-1, swap], edges[::-1, swap]
    to_left, to_right = (_oriented(network, edges[side], two) for side in range(2))
    first, kinds = classes(network.vectors[two], to_left, to_right)
    is_worthwhile = _worth_it(
        network.definitions, to_left[first], to_right[first], np.bincount(kinds)
    )
    here = np.flatnonzero(is_worthwhile[kinds])
    if not len(here):
        return False
    definitions = network.definitions
    table_numbers = np.zeros(len(first), dtype=np.int64)
    for kind in np.flatnonzero(is_worthwhile):
        k = first[kind]
        left, right = int(to_left[k]), int(to_right[k])
        shape = definitions.shapes[left][1], definitions.shapes[right][1]
        table_numbers[kind] = definitions.number(
            Product(left, int(network.vectors[two[k]]), right), shape
        )
    names = network.names
    network.ways_back.append(
        RemovedMiddles(
            names[two[here]],
            names[others[0, here]],
            names[others[1, here]],
            network.vectors[two[here]],
            to_left[here],
            to_right[here],
        )
    )
    network.tails = np.concatenate([network.tails, others[0, here]])
    network.heads = np.concatenate([network.heads, others[1, here]])
    network.tables = np.concatenate([network.tables, table_numbers[kinds[here]]])
    _take_out(network, two[here], edges[:, here].ravel())
    return True


def _worth_it(
    definitions: Definitions, left: IntArray, right: IntArray, times: IntArray
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The most frequent kinds, as many as the limit of entries allows."""
    entries = np.array(
        [
            definitions.shapes[one][1] * definitions.shapes[other][1]
            for one, other in zip(left.tolist(), right.tolist(), strict=True)
        ],
        dtype=np.int64,
    )
    order = np.argsort(-times, kind="stable")
    is_worthwhile = np.zeros(len(times), dtype=np.bool_)
    is_worthwhile[order] = (np.cumsum(entries[order]) <= _TABLE_ENTRIES) & (
        times[order] >= _LEAST_ALIKE
    )
    return is_worthwhile


@njit(cache=True, nogil=True)
def _apart(nodes: IntArray, others: IntArray, order: IntArray, count: int) -> IntArray:
    """Places of nodes of which no two are joined. order: of the places, by priority."""
    taken = np.zeros(count, dtype=np.bool_)
    places = np.empty(nodes.size, dtype=np.int64)
    n = 0
    for k in order:
        if not (taken[others[0, k]] or taken[others[1, k]]):
            taken[nodes[k]] = True
            places[n] = k
            n += 1
    return places[:n]


def _degrees(network: Network) -> IntArray:
    ends = np.concatenate([network.tails, network.heads])
    return np.bincount(ends, minlength=len(network.names)).astype(np.int64)


def _oriented(network: Network, edges: IntArray, nodes: IntArray) -> IntArray:
    """The tables of edges, with the states of these nodes first."""
    tables = network.tables[edges]
    turned = network.tails[edges] != nodes
    kinds, inverse = np.unique(tables[turned], return_inverse=True)
    transposed = np.array(
        [network.definitions.transposed(int(kind)) for kind in kinds], dtype=np.int64
    )
    tables[turned] = transposed[inverse.reshape(-1)]
    return tables


def _take_out(network: Network, nodes: IntArray, edges: IntArray) -> None:
    stays = np.ones(len(network.names), dtype=np.bool_)
    stays[nodes] = False
    place = np.cumsum(stays) - 1
    network.names = network.names[stays]
    network.extents = network.extents[stays]
    network.vectors = network.vectors[stays]
    remaining = np.ones(len(network.tails), dtype=np.bool_)
    remaining[edges] = False
    network.tails = place[network.tails[remaining]]
    network.heads = place[network.heads[remaining]]
    network.tables = network.tables[remaining]
