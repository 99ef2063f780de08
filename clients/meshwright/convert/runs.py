"""Which elements of one dim a device holds, as runs: stretches (start, stop) in ascending order.

Two rules make runs: ours (the chunks of a dim's sub-dims) and DTensor's, which cuts what is there
into chunks of ceil(length / ways), mesh dim by mesh dim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshwright.convert.grid import DeviceGrid
from meshwright.schema import Axis, SubDim

Runs = tuple[tuple[int, int], ...]


def runs_of_parts(parts: Sequence[SubDim], grid: DeviceGrid, at: Mapping[Axis, int]) -> Runs:
    """The runs of the device `at` in a dim that is the product of these sub-dims."""
    found: Runs = ((0, 1),)
    inner = 1
    for part in reversed(parts):
        index = 0
        for axis in part.axes:
            index = index * grid.size((axis,)) + at[axis]
        start, stop = part.chunk(index, grid.size(part.axes))
        whole = found == ((0, inner),)
        found = (
            ((start * inner, stop * inner),)
            if whole
            else tuple((k * inner + a, k * inner + b) for k in range(start, stop) for a, b in found)
        )
        found = _joined(found)
        inner *= part.size
    return found


def chunk_of_runs(runs: Runs, *, ways: int, index: int, split_factor: int) -> Runs:
    """DTensor's rule: `split_factor` pieces, each in `ways` chunks, and of each the one chosen."""
    length = sum(stop - start for start, stop in runs)
    pieces: list[tuple[int, int]] = []
    for start, stop in (_chunk(length, split_factor, k) for k in range(split_factor)):
        a, b = _chunk(stop - start, ways, index)
        pieces.append((start + a, start + b))
    return _joined(tuple(run for a, b in _joined(tuple(pieces)) for run in _window(runs, a, b)))


def _chunk(length: int, ways: int, index: int) -> tuple[int, int]:
    longest = -(-length // ways)
    return min(index * longest, length), min((index + 1) * longest, length)


def _window(runs: Runs, start: int, stop: int) -> Runs:
    """The runs of the elements start..stop of those in `runs`."""
    found = []
    before = 0
    for a, b in runs:
        first, last = max(start - before, 0), min(stop - before, b - a)
        if first < last:
            found.append((a + first, a + last))
        before += b - a
    return tuple(found)


def _joined(runs: Runs) -> Runs:
    found: list[tuple[int, int]] = []
    for start, stop in runs:
        if start == stop:
            continue
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return tuple(found)
