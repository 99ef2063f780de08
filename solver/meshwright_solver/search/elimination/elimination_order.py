"""The order of elimination: smallest resulting table first, repeated blocks once.

Nodes outside all blocks, boundaries included, are eliminated greedily: a chain of boundaries
shrinks from its ends, a vector and one matrix at a time.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.search.core.outcome import TableTooLarge
from meshwright_solver.search.elimination.blocks import Block, find_blocks
from meshwright_solver.search.elimination.eliminator import EliminationStep, Eliminator
from meshwright_solver.search.elimination.greedy_order import greedy
from meshwright_solver.search.elimination.repeats import find_runs
from meshwright_solver.search.elimination.tables import GraphArray, Select, TableRegistry

_BLOCK_ENTRIES = (
    4_000_000  # chosen: a block that needs more may be cheaper from the ends of its run
)
# chosen: smaller graphs are scanned for repeats before their tables are counted; 1 s
_MAX_SCANNED_NODES = 50_000
# chosen: tables are as large as two nodes together, most nodes share theirs; of a random
# series-parallel graph a third do not   # measured: 10,000 ops
_SHARE_OF_SQUARES = 1 / 12


@dataclass(frozen=True, slots=True)
class EliminationProgram:
    """Blocks are eliminated first, then `steps` in order.

    The tables without axes, `constants`, add up to the value.
    """

    graph: CostGraph
    registry: TableRegistry
    blocks: tuple[Block, ...]
    steps: tuple[EliminationStep, ...]
    constants: tuple[int, ...]

    def entries(self) -> int:
        """Entries that one solution holds; leaves without memory are the graph's own arrays."""
        registry = self.registry
        return sum(
            math.prod(shape)
            for shape, definition, has_memory in zip(
                registry.shapes, registry.definitions, registry.has_memory, strict=True
            )
            if has_memory or not isinstance(definition, GraphArray | Select)
        )


def _halving(eliminator: Eliminator, block: Block, max_entries: int) -> Iterator[int]:
    """Eliminate boundaries between repeats, every second one in each round. All eliminations of a
    round leave the same table: a chain takes the logarithm of its length."""
    outsides = [set(repeat.outside) for repeat in block.repeats]
    chain = [
        node
        for before, after in pairwise(outsides)
        for node in before & after
        if len(before & after) == 1
    ]
    while len(chain) > 2:
        for node in chain[1::2]:
            if eliminator.price(node).entries > max_entries:
                return
            eliminator.eliminate(node)
            yield node
        chain = chain[::2]


def nodes_apart(graph: CostGraph) -> NDArray[np.bool_]:
    """A mask of the nodes that are not known to repeat earlier nodes."""
    apart = np.ones(len(graph.nodes), dtype=np.bool_)
    for first, count, period in graph.spans or ():
        apart[first + period : first + count] = False
    return apart


def _check_hopeless(graph: CostGraph, max_held_entries: int) -> None:
    """Raise TableTooLarge for graphs so large that even listing their tables takes long."""
    if graph.spans is None and len(graph.nodes) < _MAX_SCANNED_NODES:
        return
    extents = graph.extents[nodes_apart(graph)].astype(np.float64)
    expected = int(_SHARE_OF_SQUARES * float(extents @ extents))
    if expected > max_held_entries:
        raise TableTooLarge("the whole graph", expected, max_held_entries)


@uncollected
def elimination_program(
    graph: CostGraph, max_table_entries: int, max_held_entries: int = sys.maxsize
) -> EliminationProgram:
    """The elimination program of a graph. Raises TableTooLarge where its order needs a table of
    more than `max_table_entries`, or tables of more than `max_held_entries` in all."""
    _check_hopeless(graph, max_held_entries)
    registry = TableRegistry()
    extents = graph.extents.tolist()
    largest = min(_BLOCK_ENTRIES, max_table_entries)
    blocks = find_blocks(graph, extents, registry, find_runs(graph), largest)
    hidden = np.zeros(len(extents), dtype=np.bool_)
    for block in blocks:
        hidden[block.hidden()] = True
    eliminator = Eliminator(extents, registry)
    outer_nodes = np.flatnonzero(~hidden).tolist()
    for node in outer_nodes:
        eliminator.add_node(node, graph.nodes[node])
    tails, heads = graph.ends
    for edge in np.flatnonzero(~hidden[tails] & ~hidden[heads]).tolist():
        eliminator.add_edge(graph.edges[edge])
    for block in blocks:
        block.add_to(eliminator)
    gone = {node for block in blocks for node in _halving(eliminator, block, largest)}
    outer_nodes = [node for node in outer_nodes if node not in gone]
    held = 0
    for node, entries in greedy(eliminator, outer_nodes):
        if entries > max_table_entries:
            what = f'eliminating node "{graph.nodes[node].name}"'
            raise TableTooLarge(what, entries, max_table_entries)
        known = len(registry.shapes)
        eliminator.eliminate(node)
        held += sum(math.prod(shape) for shape in registry.shapes[known:])
        if held > max_held_entries:
            raise TableTooLarge("the whole graph", held, max_held_entries)
    return EliminationProgram(
        graph, registry, tuple(blocks), tuple(eliminator.steps), tuple(eliminator.constants)
    )
