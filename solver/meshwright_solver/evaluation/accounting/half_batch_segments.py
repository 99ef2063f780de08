"""Two halves of a batch that take turns, so that one communicates while the other computes.

Ops are cut into *legs*: an op begins one where anything moves between it and those before it,
forward or backward, or where the leg would hold more than LEG_BUCKETS of gathered parameters and of
gradients that are reduced in every microbatch, which stay until both halves have used them or added
theirs. Forward every leg is run for the first half and then for the
second; backward legs, halves and ops come in the reverse of that order. So what a half sends at
the end of a leg moves while the other half works on the same leg.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import IntArray

HALVES = 2
LEG_BUCKETS = 20  # chosen: 500 MiB, a layer of Llama-3 8B


def legs_of(moves: NDArray[np.bool_], holds: IntArray) -> IntArray:
    """The leg of every op.

    moves: whether anything moves between each and those before it. holds: how many buckets of
    parameters each is the first to need, and of gradients the last to make.
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
    """Halves and ops in the order in which they run forward."""
    half = np.repeat(np.arange(HALVES), len(legs))
    op = np.tile(np.arange(len(legs)), HALVES)
    order = np.lexsort((op, half, np.tile(legs, HALVES)))
    return half[order], op[order]
