"""The order in which labels take the nodes: every node after those its state depends on, depth
first.

Depth first, small branches before large ones, keeps few nodes live: along a chain of blocks only a
boundary.
"""

from __future__ import annotations

from dataclasses import dataclass

from solver.elimination.eliminator import Step


@dataclass(frozen=True, slots=True)
class Stop:
    """One step of the walk, by columns of live nodes: those before it, then the node itself.

    `kept` are the columns still live after it; it `drops` the others, so that labels may meet.
    """

    step: Step
    neighbour_columns: list[int]
    neighbour_extents: tuple[int, ...]
    kept: list[int]
    kept_extents: tuple[int, ...]
    drops: bool


def walk(steps: tuple[Step, ...], extents: list[int]) -> list[Stop]:
    order = _depth_first(steps)
    last_read: dict[int, int] = {}
    for level, step in enumerate(order):
        for other in step.neighbours:
            last_read[other] = level
    stops = []
    live: list[int] = []
    for level, step in enumerate(order):
        column = {node: place for place, node in enumerate(live)}
        grown = [*live, step.node]
        kept = [place for place, node in enumerate(grown) if last_read.get(node, -1) > level]
        live = [grown[place] for place in kept]
        stops.append(
            Stop(
                step,
                [column[other] for other in step.neighbours],
                tuple([extents[other] for other in step.neighbours]),
                kept,
                tuple([extents[other] for other in live]),
                len(kept) < len(grown),
            )
        )
    return stops


def _depth_first(steps: tuple[Step, ...]) -> list[Step]:
    """Each node once its last neighbour is taken, the one with fewest nodes below it first."""
    position = {step.node: place for place, step in enumerate(steps)}
    readers: list[list[int]] = [[] for _ in steps]
    below = [1] * len(steps)
    for place, step in enumerate(steps):
        for other in step.neighbours:
            readers[position[other]].append(place)
        if step.neighbours:
            below[min(position[other] for other in step.neighbours)] += below[place]
    missing = [len(step.neighbours) for step in steps]
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
