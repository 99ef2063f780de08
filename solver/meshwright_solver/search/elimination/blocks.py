"""Blocks: subgraphs that are eliminated once for all their repeats.

The interior of one block of a run is eliminated separately. Its residual is a set of factors over
the outside nodes: boundaries of the block, and nodes that all blocks read. Every other repeat has
the very same factors over its own outside nodes. A run takes the work of one block, plus a factor
or two for each repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph, Projection
from meshwright_solver.search.elimination.eliminator import EliminationStep, Eliminator, Factor
from meshwright_solver.search.elimination.greedy_order import greedy
from meshwright_solver.search.elimination.repeats import RepeatedBlock
from meshwright_solver.search.elimination.tables import TableRegistry

AnyEdge = CostEdge | Projection


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """One repeat: its interior lies `shift` behind the model's, its outside nodes at `outside`."""

    shift: int
    outside: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """The elimination of one interior, the model's, and the places of its repeats.

    outside: the nodes that the steps read and do not eliminate. residual, constants: the remaining
    factors over these.
    """

    steps: tuple[EliminationStep, ...]
    outside: tuple[int, ...]
    residual: tuple[Factor, ...]
    constants: tuple[int, ...]
    repeats: tuple[BlockCopy, ...]

    @property
    def interior(self) -> tuple[int, ...]:
        """The model's nodes that are eliminated, in order."""
        return tuple(step.node for step in self.steps)

    def hidden(self) -> IntArray:
        """(repeats, interior): the interiors of all repeats."""
        shifts = np.array([repeat.shift for repeat in self.repeats], dtype=np.int64)
        return np.array(self.interior, dtype=np.int64) + shifts[:, None]

    def add_to(self, eliminator: Eliminator) -> None:
        """Add the residual factors of all repeats."""
        for repeat in self.repeats:
            place = dict(zip(self.outside, repeat.outside, strict=True))
            for factor in self.residual:
                scope = tuple([place[node] for node in factor.scope])
                eliminator.add(Factor(factor.table, scope, factor.is_projection))
            eliminator.constants += self.constants


def find_blocks(
    graph: CostGraph,
    extents: Sequence[int],
    registry: TableRegistry,
    runs: Sequence[RepeatedBlock],
    max_entries: int,
) -> list[Block]:
    """One block for every run that has an interior whose tables stay within `max_entries`."""
    blocks = []
    inside = np.zeros(len(graph.nodes), dtype=np.bool_)
    outside = np.zeros(len(graph.nodes), dtype=np.bool_)
    for run in runs:
        edges = _Edges(graph, run)
        order = _order(graph, extents, run, edges.touching_model(), max_entries)
        if not order:
            continue
        block = _block(graph, extents, registry, edges, order)
        interior = np.array(block.interior)
        # two runs may read each other: a node belongs to one of them
        block = replace(
            block,
            repeats=tuple(
                repeat
                for repeat in block.repeats
                if not inside[list(repeat.outside)].any()
                and not outside[interior + repeat.shift].any()
            ),
        )
        blocks.append(block)
        for repeat in block.repeats:
            inside[interior + repeat.shift] = True
            outside[list(repeat.outside)] = True
    return blocks


class _Edges:
    """The edges of a run's repeats, by array operations over all of them.

    An edge belongs to every repeat whose interior holds one of its ends.
    """

    def __init__(self, graph: CostGraph, run: RepeatedBlock) -> None:
        self.graph = graph
        self.model = run.repeats // 2
        self.shifts = (np.arange(run.repeats) - self.model) * run.period
        interior = np.array([run.interior(k) for k in range(run.repeats)], dtype=np.int64)
        repeat_of = np.full(len(graph.nodes), -1)
        repeat_of[interior] = np.arange(run.repeats)[:, None]
        tails, heads = graph.ends
        first, second = repeat_of[tails], repeat_of[heads]
        edges = np.arange(len(tails))
        both = np.concatenate([edges[first >= 0], edges[(second >= 0) & (second != first)]])
        with_ = np.concatenate([first[first >= 0], second[(second >= 0) & (second != first)]])
        order = np.lexsort((both, with_))
        self._edge, self._repeat = both[order], with_[order]

    def touching_model(self) -> list[AnyEdge]:
        """The edges that touch the model's interior."""
        return [self.graph.edges[k] for k in self._edge[self._repeat == self.model]]

    def touching(self, gone: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Edges that touch these nodes of the model's interior, in any repeat; and their
        repeats."""
        is_gone = np.zeros(len(self.graph.nodes) + 1, dtype=np.bool_)
        is_gone[list(gone)] = True
        is_touching = np.zeros(len(self._edge), dtype=np.bool_)
        for ends in self.graph.ends:
            moved = ends[self._edge] - self.shifts[self._repeat]
            outside = (moved < 0) | (moved >= len(self.graph.nodes))
            is_touching |= is_gone[np.where(outside, -1, moved)]
        return self._edge[is_touching], self._repeat[is_touching]


def _order(
    graph: CostGraph,
    extents: Sequence[int],
    run: RepeatedBlock,
    edges: Sequence[AnyEdge],
    max_entries: int,
) -> list[int]:
    """The nodes of the model's interior that elimination can remove, in order."""
    interior = run.interior(run.repeats // 2)
    trial = Eliminator(extents, TableRegistry())
    for node in interior:
        trial.add_node(node, graph.nodes[node])
    for edge in edges:
        trial.add_edge(edge)
    for node, entries in greedy(trial, interior):
        if entries > max_entries:
            break
        trial.eliminate(node)
    return [step.node for step in trial.steps]


def _block(
    graph: CostGraph,
    extents: Sequence[int],
    registry: TableRegistry,
    edges: _Edges,
    order: Sequence[int],
) -> Block:
    touching, repeat_of = edges.touching(order)
    model_edges = touching[repeat_of == edges.model]
    eliminator = Eliminator(extents, registry)
    for node in order:
        eliminator.add_node(node, graph.nodes[node])
    for k in model_edges.tolist():
        eliminator.add_edge(graph.edges[k])
    for node in order:
        eliminator.eliminate(node)
    tails, heads = graph.ends
    gone = np.array(order, dtype=np.int64)
    outside = np.setdiff1d(np.concatenate([tails[model_edges], heads[model_edges]]), gone)
    # only a repeat of as many edges can be the model, moved
    counts = np.bincount(repeat_of, minlength=len(edges.shifts))
    alike = np.flatnonzero(counts == len(model_edges))
    repeat_edges = touching[np.isin(repeat_of, alike)].reshape(len(alike), len(model_edges))
    shifts = edges.shifts[alike]
    places, is_moved = _moved(graph, model_edges, repeat_edges, gone, shifts)
    return Block(
        tuple(eliminator.steps),
        tuple(outside.tolist()),
        tuple(eliminator.factors_left()),
        tuple(eliminator.constants),
        tuple(
            BlockCopy(shift, tuple(place))
            for shift, place in zip(
                shifts[is_moved].tolist(), places[is_moved].tolist(), strict=True
            )
        ),
    )


def _moved(
    graph: CostGraph,
    model_edges: IntArray,
    repeat_edges: IntArray,
    gone: IntArray,
    shifts: IntArray,
) -> tuple[IntArray, NDArray[np.bool_]]:
    """The places of the model's outside nodes, shape (repeats, outside); and which repeats are
    the moved model: the same arrays, and every end of an edge at one place."""
    of_nodes, of_edges = graph.kinds
    is_moved = (of_nodes[gone + shifts[:, None]] == of_nodes[gone]).all(axis=1)
    is_moved &= (of_edges[repeat_edges] == of_edges[model_edges]).all(axis=1)
    tails, heads = graph.ends
    ends = np.concatenate([tails[model_edges], heads[model_edges], gone])
    moved_ends = np.concatenate(
        [tails[repeat_edges], heads[repeat_edges], gone + shifts[:, None]], axis=1
    )
    nodes, first, which = np.unique(ends, return_index=True, return_inverse=True)
    place = moved_ends[:, first]
    is_moved &= (place[:, which] == moved_ends).all(axis=1)
    is_gone = np.isin(nodes, gone)
    is_moved &= (place[:, is_gone] == nodes[is_gone] + shifts[:, None]).all(axis=1)
    in_order = np.sort(place, axis=1)
    is_moved &= (in_order[:, 1:] != in_order[:, :-1]).all(axis=1)
    return place[:, ~is_gone], is_moved
