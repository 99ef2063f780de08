"""Blocks: what is eliminated once and stands for every repeat of it.

The interior of one block of a run is eliminated on its own; what is left of it are factors over the
nodes outside: boundaries of the block, and nodes that all blocks read. Every other repeat has the
very same factors over its own outside nodes. So a run takes the work of one block, and a factor or
two for each repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from solver.cost_graph import CostGraph, Edge, Projection
from solver.elimination.eliminator import Eliminator, Factor, Step
from solver.elimination.greedy import greedy
from solver.elimination.repeats import Run
from solver.elimination.tables import TableRegistry

AnyEdge = Edge | Projection


@dataclass(frozen=True, slots=True)
class Repeat:
    """One repeat: its interior lies `shift` behind the model's, its outside nodes at `outside`."""

    shift: int
    outside: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """The elimination of one interior, the model's, and where its repeats are.

    outside: the nodes that the steps read and do not eliminate. residual, constants: the factors
    over these that are left.
    """

    steps: tuple[Step, ...]
    outside: tuple[int, ...]
    residual: tuple[Factor, ...]
    constants: tuple[int, ...]
    repeats: tuple[Repeat, ...]

    @property
    def interior(self) -> tuple[int, ...]:
        """The model's nodes that are eliminated, in order."""
        return tuple(step.node for step in self.steps)

    def hidden(self) -> set[int]:
        """The interiors of all repeats."""
        return {node + repeat.shift for repeat in self.repeats for node in self.interior}

    def add_to(self, eliminator: Eliminator) -> None:
        """The residual factors of all repeats."""
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
    runs: Sequence[Run],
    max_entries: int,
) -> list[Block]:
    """One block for every run that has an interior whose tables stay within `max_entries`."""
    edges = _edges_inside(graph, runs)
    blocks = []
    inside: set[int] = set()
    outside: set[int] = set()
    for number, run in enumerate(runs):
        own = edges[number]
        order = _order(graph, extents, run, own[run.repeats // 2], max_entries)
        if not order:
            continue
        block = _block(graph, extents, registry, run, own, order)
        # two runs may read each other: a node goes with one of them
        block = replace(
            block,
            repeats=tuple(
                repeat
                for repeat in block.repeats
                if inside.isdisjoint(repeat.outside)
                and outside.isdisjoint(node + repeat.shift for node in block.interior)
            ),
        )
        blocks.append(block)
        inside |= block.hidden()
        outside.update(node for repeat in block.repeats for node in repeat.outside)
    return blocks


def _edges_inside(graph: CostGraph, runs: Sequence[Run]) -> list[list[list[AnyEdge]]]:
    """By run and repeat: the edges that touch its interior."""
    found: list[list[list[AnyEdge]]] = [[[] for _ in range(run.repeats)] for run in runs]
    inside: list[list[AnyEdge] | None] = [None] * len(graph.nodes)
    for run, own in zip(runs, found, strict=True):
        for repeat in range(run.repeats):
            for node in run.interior(repeat):
                inside[node] = own[repeat]
    for edge in graph.edges:
        first, second = inside[edge.tail], inside[edge.head]
        if first is not None:
            first.append(edge)
        if second is not None and second is not first:
            second.append(edge)
    return found


def _order(
    graph: CostGraph, extents: Sequence[int], run: Run, edges: Sequence[AnyEdge], max_entries: int
) -> list[int]:
    """The nodes of the model's interior that can go, in order."""
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
    run: Run,
    edges: Sequence[Sequence[AnyEdge]],
    order: Sequence[int],
) -> Block:
    gone = frozenset(order)
    model = run.repeats // 2
    own = _touching(edges[model], gone, 0)
    eliminator = Eliminator(extents, registry)
    for node in order:
        eliminator.add_node(node, graph.nodes[node])
    for edge in own:
        eliminator.add_edge(edge)
    for node in order:
        eliminator.eliminate(node)
    outside = tuple(sorted({end for edge in own for end in (edge.tail, edge.head)} - gone))
    repeats = []
    for number in range(run.repeats):
        shift = (number - model) * run.period
        theirs = _touching(edges[number], gone, shift)
        place = _moved(graph, own, theirs, gone, shift)
        if place is not None:
            repeats.append(Repeat(shift, tuple([place[node] for node in outside])))
    return Block(
        tuple(eliminator.steps),
        outside,
        tuple(eliminator.factors_left()),
        tuple(eliminator.constants),
        tuple(repeats),
    )


def _touching(edges: Sequence[AnyEdge], gone: frozenset[int], shift: int) -> list[AnyEdge]:
    return [edge for edge in edges if edge.tail - shift in gone or edge.head - shift in gone]


def _moved(
    graph: CostGraph,
    own: Sequence[AnyEdge],
    theirs: Sequence[AnyEdge],
    gone: frozenset[int],
    shift: int,
) -> dict[int, int] | None:
    """Node of the model -> that of a repeat; None where this is not the model, moved."""
    if len(own) != len(theirs):
        return None
    for node in gone:
        a, b = graph.nodes[node], graph.nodes[node + shift]
        if a.cost is not b.cost or a.memory is not b.memory:
            return None
    place = {node: node + shift for node in gone}
    for edge, other in zip(own, theirs, strict=True):
        if not _same_arrays(edge, other):
            return None
        for end, moved in ((edge.tail, other.tail), (edge.head, other.head)):
            if place.setdefault(end, moved) != moved:
                return None
    return place if len(set(place.values())) == len(place) else None


def _same_arrays(a: AnyEdge, b: AnyEdge) -> bool:
    if isinstance(a, Projection) or isinstance(b, Projection):
        return isinstance(a, Projection) and isinstance(b, Projection) and a.select is b.select
    return a.cost is b.cost and a.memory is b.memory
