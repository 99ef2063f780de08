"""Layers of a directed graph of boxes: each below all that it reads, with few crossings.

Layers by the longest path, orders within them by the means of neighbours, up and down in turn
(Sugiyama, Tagawa, Toda 1981). Boxes have sizes of their own; nothing overlaps. The layers are
those of `networkx.topological_generations`, which takes three times as long and 0.14 s to import.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GAP_X, GAP_Y = 24.0, 40.0  # pixels between boxes; chosen
SWEEPS = 4  # chosen: later ones hardly change anything


@dataclass(frozen=True, slots=True)
class Laid:
    """at: the left upper corner of every box. width, height: of all together."""

    at: tuple[tuple[float, float], ...]
    width: float
    height: float


def lay(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Laid:
    """Boxes by number; edges lead from lower numbers to higher ones."""
    count = len(sizes)
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in sorted(set(edges)):
        assert a < b
        below[a].append(b)
        above[b].append(a)
    layer = [0] * count
    for k in range(count):
        layer[k] = max((layer[a] + 1 for a in above[k]), default=0)
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for k in range(count):
        rows[layer[k]].append(k)
    place = _places(rows)
    for sweep in range(SWEEPS):
        near = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            means = {k: _mean(near[k], place, place[k]) for k in row}
            row.sort(key=lambda k: (means[k], k))
            for position, k in enumerate(row):
                place[k] = position - (len(row) - 1) / 2
    return _placed(sizes, rows)


def _places(rows: Sequence[Sequence[int]]) -> list[float]:
    found = {k: float(position) for row in rows for position, k in enumerate(row)}
    return [found[k] for k in range(len(found))]


def _mean(near: Sequence[int], place: Sequence[float], own: float) -> float:
    return sum(place[k] for k in near) / len(near) if near else own


def _placed(sizes: Sequence[tuple[float, float]], rows: Sequence[Sequence[int]]) -> Laid:
    widths = [sum(sizes[k][0] for k in row) + GAP_X * (len(row) - 1) for row in rows]
    width = max(widths, default=0.0)
    at: dict[int, tuple[float, float]] = {}
    y = 0.0
    for row, own in zip(rows, widths, strict=True):
        x = (width - own) / 2
        for k in row:
            at[k] = (x, y)
            x += sizes[k][0] + GAP_X
        y += max(sizes[k][1] for k in row) + GAP_Y
    return Laid(tuple(at[k] for k in range(len(sizes))), width, max(0.0, y - GAP_Y))
