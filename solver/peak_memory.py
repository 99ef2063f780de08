"""Temporary memory of a step: its own buffers on one device while it runs.

With B and A the elements of a device's part before and after it,

    all_reduce       A       in place, as NCCL and the frameworks do it
    all_gather,      B + A   no device may write over what others still read
    reduce_scatter,
    all_to_all,
    permute
    slice            B + A   a view would keep all of B alive
    mask             B + A   other readers still want B

Steps run one after the other, so what a redistribution takes is the most of any of its steps.
"""

from __future__ import annotations

from math import prod

from meshwright.schema import Layout, Mesh
from meshwright.schema.plan import CollectiveKind


def peak_elements(kind: CollectiveKind, before: Layout, after: Layout, mesh: Mesh) -> int:
    """Elements on the device with the largest parts, of input and output together."""
    written = prod(after.local_shape(mesh))
    return written if kind == "all_reduce" else prod(before.local_shape(mesh)) + written
