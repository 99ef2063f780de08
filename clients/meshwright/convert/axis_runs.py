"""Index ranges of one dim on one device: runs (start, stop) in ascending order.

Runs follow one of two rules. Meshwright's rule takes the chunks of a dim's sub-dims. DTensor's rule
cuts the current elements into chunks of ceil(length / ways), mesh dim by mesh dim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshwright.convert.grid import DeviceGrid
from meshwright.schema import Axis, SubDim

Runs = tuple[tuple[int, int], ...]


def runs_of_parts(parts: Sequence[SubDim], grid: DeviceGrid, at: Mapping[Axis, int]) -> Runs:
    """The runs of the device at coordinates `at` in a dim with these sub-dims, major first."""
    runs: Runs = ((0, 1),)
    inner = 1
    for part in reversed(parts):
        index = 0
        for axis in part.axes:
            index = index * grid.size((axis,)) + at[axis]
        start, stop = part.chunk(index, grid.size(part.axes))
        unsplit = runs == ((0, inner),)
        runs = (
            ((start * inner, stop * inner),)
            if unsplit
            else tuple((k * inner + a, k * inner + b) for k in range(start, stop) for a, b in runs)
        )
        runs = _join(runs)
        inner *= part.size
    return runs


def chunk_of_runs(runs: Runs, *, ways: int, index: int, split_factor: int) -> Runs:
    """The runs of one device by DTensor's rule.

    The rule cuts the elements into `split_factor` pieces and each piece into `ways` chunks; the
    device holds chunk `index` of every piece.
    """
    length = sum(stop - start for start, stop in runs)
    pieces: list[tuple[int, int]] = []
    for start, stop in (_chunk(length, split_factor, k) for k in range(split_factor)):
        a, b = _chunk(stop - start, ways, index)
        pieces.append((start + a, start + b))
    return _join(tuple(run for a, b in _join(tuple(pieces)) for run in _window(runs, a, b)))


def _chunk(length: int, ways: int, index: int) -> tuple[int, int]:
    longest = -(-length // ways)
    return min(index * longest, length), min((index + 1) * longest, length)


def _window(runs: Runs, start: int, stop: int) -> Runs:
    """The runs of the elements start..stop, counted within `runs`."""
    window = []
    before = 0
    for a, b in runs:
        first, last = max(start - before, 0), min(stop - before, b - a)
        if first < last:
            window.append((a + first, a + last))
        before += b - a
    return tuple(window)


def _join(runs: Runs) -> Runs:
    joined: list[tuple[int, int]] = []
    for start, stop in runs:
        if start == stop:
            continue
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return tuple(joined)
