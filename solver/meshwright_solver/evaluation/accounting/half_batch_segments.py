"""Half-batch segments: two halves of a batch take turns, to overlap communication and compute.

Ops are partitioned into *legs*. An op starts a new leg in two cases:
  - Anything moves between the op and earlier ops, forward or backward.
  - The leg would hold more than LEG_BUCKETS of gathered parameters and of gradients that are
    reduced in every microbatch. Both stay until the second half has used or accumulated them.

The forward pass runs each leg for the first half and then for the second. The backward pass runs
legs, halves and ops in reverse order. Communication of one half at the end of a leg overlaps with
the work of the other half on the same leg.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import IntArray

HALVES = 2
LEG_BUCKETS = 20  # chosen: 500 MiB, a layer of Llama-3 8B


def legs_of(moves: NDArray[np.bool_], holds: IntArray) -> IntArray:
    """Leg of every op.

    moves: whether anything moves between an op and earlier ops. holds: by op, buckets of parameters
    that it is the first to need, and of gradients that it is the last to produce.
    """
    legs = np.zeros(len(moves), dtype=np.int64)
    leg = held = 0
    for k, (begins, buckets) in enumerate(zip(moves.tolist(), holds.tolist(), strict=True)):
        if k and (begins or (held and buckets and held + buckets > LEG_BUCKETS)):
            leg, held = leg + 1, 0
        held += buckets
        legs[k] = leg
    return legs


def in_legs(legs: IntArray) -> tuple[IntArray, IntArray]:
    """Half and op of every place in forward order."""
    half = np.repeat(np.arange(HALVES), len(legs))
    op = np.tile(np.arange(len(legs)), HALVES)
    order = np.lexsort((op, half, np.tile(legs, HALVES)))
    return half[order], op[order]
