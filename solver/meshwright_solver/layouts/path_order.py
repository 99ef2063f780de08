"""The order of the axes on a slot for which every step of some paths is possible.

A step that takes axes off a slot, or puts axes on it, changes the innermost ones: the parts of the
others stay where they are. Of the axes on a slot, those that a step leaves there are therefore
slower than those that it changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from meshwright_solver.layouts.redistribution import Path


def in_path_order(ranks: tuple[int, ...], paths: Iterable[Path], slots: int) -> tuple[int, ...]:
    """The ranks of the axes, slowest first, as `ranks` unless a path needs another order.

    Paths that contradict each other leave `ranks` as they are.
    """
    faster = {pair for path in paths for pair in _pairs(path, slots)}
    if all((ranks[slow], slow) < (ranks[fast], fast) for slow, fast in faster):
        return ranks
    waits = [sum(fast == axis for _, fast in faster) for axis in range(len(ranks))]
    ready = [(rank, axis) for axis, rank in enumerate(ranks) if not waits[axis]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, axis = heapq.heappop(ready)
        order.append(axis)
        for slow, fast in faster:
            if slow == axis:
                waits[fast] -= 1
                if not waits[fast]:
                    heapq.heappush(ready, (ranks[fast], fast))
    if len(order) < len(ranks):
        return ranks
    return tuple(order.index(axis) for axis in range(len(ranks)))


def _pairs(path: Path, slots: int) -> Iterator[tuple[int, int]]:
    """Pairs of axes on one slot, the slower first."""
    for step in path:
        before, after = step.before.codes, step.after.codes
        for slot in range(slots):
            on = {axis for axis, code in enumerate(before) if code == slot}
            then = {axis for axis, code in enumerate(after) if code == slot}
            yield from ((slow, fast) for slow in on & then for fast in on ^ then)
