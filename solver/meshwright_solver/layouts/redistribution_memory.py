"""Temporary memory of a step: its own buffers on one device while it runs.

With B and A the elements of a device's part before and after it,

    all_reduce       A       in place, as NCCL and the frameworks do it
    all_gather,      B + A   no device may write over what others still read
    reduce_scatter,
    all_to_all,
    permute
    slice            B + A   a view would keep all of B alive
    mask             B + A   other readers still want B

Steps run one after the other, so what a redistribution takes is the most of any of its steps. What
it begins with stays until it ends, as others may read it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from meshwright.schema import Layout, Mesh
from meshwright.schema.collective_step import CollectiveKind
from meshwright_solver.layouts.redistribution import Path


def peak_elements(kind: CollectiveKind, before: Layout, after: Layout, mesh: Mesh) -> int:
    """Elements on the device with the largest parts, of input and output together."""
    written = prod(after.local_shape(mesh))
    return written if kind == "all_reduce" else prod(before.local_shape(mesh)) + written


def between_bytes(path: Path, bytes_of: Callable[[tuple[int, ...]], int]) -> int:
    """The most that a way of several steps makes beside what it begins with and what it ends with.

    bytes_of: of a layout's codes, on one device.
    """
    made = [bytes_of(move.after.codes) for move in path]
    if len(made) < 2:
        return 0
    both = [
        after if move.kind == "all_reduce" else before + after
        for move, before, after in zip(path[1:], made[:-1], made[1:], strict=True)
    ]
    return max(0, max(made[0], *both) - made[-1])
