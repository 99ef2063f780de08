"""Transient memory of a step: the buffers that it uses on one device while it runs.

With B and A the elements of a device's part before and after it,

    all_reduce       A       in place, as in NCCL and the frameworks
    all_gather,      B + A   no device may overwrite data that others still read
    reduce_scatter,
    all_to_all,
    permute
    slice            B + A   a view would keep all of B alive
    mask             B + A   other readers still need B

Steps run one after the other, so the transient memory of a redistribution is the largest of its
steps'. Its input stays until the end, as others may read it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from meshwright.schema import Layout, Mesh
from meshwright.schema.collective_step import CollectiveKind
from meshwright_solver.layouts.redistribution import Path


def peak_elements(kind: CollectiveKind, before: Layout, after: Layout, mesh: Mesh) -> int:
    """Elements of input and output together, on the device with the largest parts."""
    written = prod(after.local_shape(mesh))
    return written if kind == "all_reduce" else prod(before.local_shape(mesh)) + written


def between_bytes(path: Path, bytes_of: Callable[[tuple[int, ...]], int]) -> int:
    """The peak bytes of a path's intermediate results, its input and its output excluded.

    bytes_of: the bytes of a layout's codes on one device.
    """
    results = [bytes_of(move.after.codes) for move in path]
    if len(results) < 2:
        return 0
    both = [
        after if move.kind == "all_reduce" else before + after
        for move, before, after in zip(path[1:], results[:-1], results[1:], strict=True)
    ]
    return max(0, max(results[0], *both) - results[-1])
