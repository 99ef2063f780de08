"""The order in which labels take the nodes: every node after those its state depends on, depth
first.

Depth first, with small branches before large ones, keeps few nodes live: along a chain of blocks
only a boundary. A block's interior is one stop, after all nodes that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshwright_solver.search.elimination.blocks import Block
from meshwright_solver.search.elimination.eliminator import EliminationStep


@dataclass(frozen=True, slots=True)
class Inside:
    """The interior of one repeat of a block."""

    block: Block
    number: int

    @property
    def neighbours(self) -> tuple[int, ...]:
        return self.block.repeats[self.number].outside


@dataclass(frozen=True, slots=True)
class Stop:
    """A step or interior of the walk, by columns of live nodes: those before it, then the node.

    `live_columns` are still live after it; it `drops` the others, so that labels may meet.
    """

    what: EliminationStep | Inside
    neighbour_columns: list[int]
    neighbour_extents: tuple[int, ...]
    live_columns: list[int]
    live_extents: tuple[int, ...]
    drops: bool


def walk(
    steps: Sequence[EliminationStep | Inside],
    extents: Sequence[int],
    live_at_start: Sequence[int] = (),
) -> list[Stop]:
    """All stops. `live_at_start`: the nodes whose states are known."""
    order = _depth_first(steps)
    last_read: dict[int, int] = {}
    for level, step in enumerate(order):
        for other in step.neighbours:
            last_read[other] = level
    stops = []
    live = list(live_at_start)
    for level, step in enumerate(order):
        column = {node: place for place, node in enumerate(live)}
        grown = [*live, step.node] if isinstance(step, EliminationStep) else live
        live_columns = [
            place for place, node in enumerate(grown) if last_read.get(node, -1) > level
        ]
        live = [grown[place] for place in live_columns]
        stops.append(
            Stop(
                step,
                [column[other] for other in step.neighbours],
                tuple([extents[other] for other in step.neighbours]),
                live_columns,
                tuple([extents[other] for other in live]),
                len(live_columns) < len(grown),
            )
        )
    return stops


def _depth_first(steps: Sequence[EliminationStep | Inside]) -> list[EliminationStep | Inside]:
    """Each node once its last neighbour is taken, the one with fewest nodes below it first."""
    position = {
        step.node: place for place, step in enumerate(steps) if isinstance(step, EliminationStep)
    }
    readers: list[list[int]] = [[] for _ in steps]
    below = [1 if isinstance(step, EliminationStep) else len(step.block.steps) for step in steps]
    missing = []
    for place, step in enumerate(steps):
        around = [position[other] for other in step.neighbours if other in position]
        missing.append(len(around))
        for other in around:
            readers[other].append(place)
        if around:
            below[min(around)] += below[place]
    order = []
    stack = sorted(
        (place for place, count in enumerate(missing) if count == 0),
        key=lambda place: -below[place],
    )
    while stack:
        place = stack.pop()
        order.append(steps[place])
        for reader in readers[place]:
            missing[reader] -= 1
        ready = [reader for reader in readers[place] if missing[reader] == 0]
        stack.extend(sorted(ready, key=lambda reader: -below[reader]))
    return order
