"""Read states of a value, and the bytes saved for the backward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.layouts.redistribution import Redistributions
from meshwright_solver.problem.values import Again


@dataclass(slots=True)
class ReadStates:
    """States of a read node. again: whether the value is saved at rest and gathered again."""

    layouts: IntArray
    again: np.ndarray[Any, np.dtype[np.bool_]]


def read_states_of(layouts: IntArray, again: Again) -> ReadStates:
    once = np.zeros(len(layouts), dtype=np.bool_)
    if again == "may":
        return ReadStates(np.concatenate([layouts, layouts]), np.concatenate([once, ~once]))
    return ReadStates(layouts, ~once if again == "always" else once)


def saved_bytes(
    moves: Redistributions, rest: IntArray, read: ReadStates, rest_is_at_hand: bool
) -> FloatArray:
    """(rest, read): saved bytes of the read copy. rest_is_at_hand: the layout at rest is available
    anyway."""
    same = moves.space.key(rest)[:, None] == moves.space.key(read.layouts)[None, :]
    at_rest = moves.space.saved_bytes(rest)[:, None]
    as_read = moves.space.saved_bytes(read.layouts)[None, :]
    copy = np.where(read.again[None, :], 0.0 if rest_is_at_hand else at_rest, as_read)
    return np.where(same, 0.0 if rest_is_at_hand else at_rest, copy)


def working_bytes(
    moves: Redistributions, rest: IntArray, read: ReadStates, rest_is_needed: bool
) -> FloatArray:
    """(rest, read): bytes of the copy of a recomputed value, until its gradients are complete.

    rest_is_needed: the layout at rest is needed anyway. A copy saved as read takes none of it.
    """
    same = moves.space.key(rest)[:, None] == moves.space.key(read.layouts)[None, :]
    at_rest = moves.space.local_bytes(rest)[:, None]
    as_read = moves.space.local_bytes(read.layouts)[None, :]
    copy = np.where(read.again[None, :], as_read, 0.0)
    return np.where(same, 0.0 if rest_is_needed else at_rest, copy)


def saved_as_read_bytes(
    moves: Redistributions, rest: IntArray, needed: IntArray, rest_is_at_hand: bool
) -> FloatArray:
    """(rest, needed): bytes that a single reader saves, the smaller copy if slicing alone converts
    them."""
    rows, columns = moves.space.index(rest), moves.space.index(needed)
    free = moves.forward_ns(rows[:, None], columns[None, :]) == 0.0
    at_rest = moves.space.saved_bytes(rest)[:, None]
    as_read = moves.space.saved_bytes(needed)[None, :]
    if rest_is_at_hand:
        return np.where(free, 0.0, as_read)
    return np.where(free, np.minimum(at_rest, as_read), as_read)
