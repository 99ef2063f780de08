"""Halves of a batch that take turns: which ops make a leg, in which order they run."""

from __future__ import annotations

import numpy as np

from meshwright_solver.evaluation.accounting.half_batch_segments import (
    LEG_BUCKETS,
    in_legs,
    legs_of,
)

NOTHING = np.zeros(5, dtype=np.int64)


def test_an_op_that_waits_for_what_moves_begins_a_leg() -> None:
    moves = np.array([True, False, True, False, True])
    assert legs_of(moves, NOTHING).tolist() == [0, 0, 1, 1, 2]


def test_a_leg_gathers_no_more_than_may_stay() -> None:
    gathers = np.array([LEG_BUCKETS - 1, 1, 1, LEG_BUCKETS + 5, 0])
    assert legs_of(np.zeros(5, dtype=np.bool_), gathers).tolist() == [0, 0, 1, 2, 2]


def test_leg_by_leg_one_half_and_then_the_other() -> None:
    half, op = in_legs(np.array([0, 0, 1]))
    assert list(zip(half.tolist(), op.tolist(), strict=True)) == [
        (0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)
    ]  # fmt: skip
