"""Comparison of a sharded run with the unsharded one."""

from __future__ import annotations

import numpy as np

from meshwright.schema import Layout, Mesh
from meshwright_solver.verification.execution.executor import ShardedRun
from meshwright_solver.verification.execution.reference_run import ReferenceRun
from meshwright_solver.verification.execution.sequence_order import LoadedOrder
from meshwright_solver.verification.execution.shards import Array, Shards, unshard

TOLERANCE = 1e-8  # chosen: float64 sums in another order, through a hundred layers
# chosen: tensors that are zero but for rounding (a key's bias gradient) count against the largest
NEGLIGIBLE = 1e-6


class DifferenceError(Exception):
    """The devices' tensor differs from the unsharded run's."""


def compare_runs(mesh: Mesh, whole: ReferenceRun, sharded: ShardedRun, order: LoadedOrder) -> float:
    """The worst error; DifferenceError beyond TOLERANCE, or where no device has a gradient."""
    worst = 0.0
    for what, tensors, expected in (
        ("tensor", sharded.values, whole.values),
        ("gradient of", sharded.gradients, whole.gradients),
    ):
        floor = NEGLIGIBLE * max((_largest(array) for array in expected.values()), default=0.0)
        for root, (layout, shards) in tensors.items():
            wanted = expected.get(root)
            if wanted is not None:
                wanted = order.tensor(root, wanted)
            error = error_of(layout, shards, mesh, wanted, floor)
            if error > TOLERANCE:
                raise DifferenceError(
                    f"{what} {root!r} in {layout} differs from the unsharded run by {error:.1e} "
                    "of its largest element"
                )
            worst = max(worst, error)
    for root in whole.gradients:
        if root in sharded.values and root not in sharded.gradients:
            raise DifferenceError(f"no device has a gradient of {root!r}")
    return worst


def _largest(array: Array) -> float:
    """The largest finite element: masks hold infinities, which have no scale."""
    if array.dtype.kind != "f":
        return 0.0
    return float(np.abs(array).max(initial=0.0, where=np.isfinite(array)))


def error_of(
    layout: Layout, shards: Shards, mesh: Mesh, expected: Array | None, floor: float
) -> float:
    """The largest difference of a sharded tensor from the expected one, as a share of its largest.

    Equal infinities are equal; an infinity against anything else, or NaN, is an infinite error.
    """
    whole = unshard(shards, layout, mesh)
    if expected is None:
        return _largest(whole) if np.isfinite(whole).all() else float("inf")
    if whole.dtype.kind != "f":
        return 0.0 if np.array_equal(whole, expected) else 1.0
    difference = np.zeros(whole.shape)
    np.subtract(whole, expected, out=difference, where=whole != expected)
    difference = np.abs(difference)
    if not np.isfinite(difference).all():
        return float("inf")
    scale = max(_largest(expected), floor) or 1.0
    return float(difference.max(initial=0.0)) / scale
