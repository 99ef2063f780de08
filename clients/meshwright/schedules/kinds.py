"""The kinds of pipeline schedules, by their names in Megatron-LM and PyTorch.

    gpipe             all forwards, then all backwards: every microbatch is held (Huang et al. 2018)
    1f1b              one forward, one backward; rank r of p holds p - r (Narayanan et al. 2019)
    interleaved_1f1b  v stages per rank: a bubble v times smaller, v times the transfers (Narayanan
                      et al. 2021, "Efficient Large-Scale Language Model Training")
    zb_h1             split backwards, with W in the bubbles; every rank holds as much as the first
                      of 1f1b (Qi et al. 2023)
    zb_v              split backwards with two stages per rank in a V: no rank waits between its
                      first and its last pass if all passes take the same time

With equal stages of forward time F and backward times I and W, the bubble of a rank in a step is

    gpipe, 1f1b        (p - 1) (F + I + W)
    interleaved_1f1b   (p - 1) (F + I + W) / v
    zb_h1              (p - 1) (F + I - W)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meshwright.common.arrays import IntArray
from meshwright.schedules.schedule import Pass, ScheduleTable, placed_as_v, placed_in_turn
from meshwright.schema import InvalidInput


def gpipe(ranks: int, microbatches: int) -> ScheduleTable:
    """GPipe: all forwards, then all backwards."""
    numbers = np.arange(microbatches)
    of_ranks = [
        np.concatenate([_rows(rank, Pass.F, numbers), _rows(rank, Pass.B, numbers)])
        for rank in range(ranks)
    ]
    return ScheduleTable("gpipe", microbatches, placed_in_turn(ranks, 1), of_ranks)


def one_f_one_b(ranks: int, microbatches: int) -> ScheduleTable:
    """1F1B: one forward, one backward."""
    of_ranks = [_one_f_one_b_rows(rank, ranks, 1, microbatches, ranks) for rank in range(ranks)]
    return ScheduleTable("1f1b", microbatches, placed_in_turn(ranks, 1), of_ranks)


def interleaved(ranks: int, microbatches: int, stages_per_rank: int) -> ScheduleTable:
    """Interleaved 1F1B: rounds of equal length, with at least as many microbatches as ranks."""
    in_round = microbatches // max(1, microbatches // ranks)
    of_ranks = [
        _one_f_one_b_rows(rank, ranks, stages_per_rank, microbatches, in_round)
        for rank in range(ranks)
    ]
    return ScheduleTable(
        "interleaved_1f1b", microbatches, placed_in_turn(ranks, stages_per_rank), of_ranks
    )


def zb_h1(ranks: int, microbatches: int) -> ScheduleTable:
    """ZB-H1: rank r delays W by r backwards, so that all ranks hold as much as the first."""
    of_ranks = []
    for rank in range(ranks):
        rows = _one_f_one_b_rows(rank, ranks, 1, microbatches, ranks)
        place = np.arange(len(rows))
        back = rows[:, 1] == Pass.B
        inputs, weights = rows[back], rows[back]
        rows[back, 1], inputs[:, 1], weights[:, 1] = Pass.I, Pass.I, Pass.W
        # W of each microbatch follows the backward `rank` later, the last ones are at the end
        behind = np.append(place[back][rank:], len(rows) + np.arange(min(rank, microbatches)))
        order = np.argsort(np.append(place, behind), kind="stable")
        of_ranks.append(np.concatenate([rows, weights])[order])
    return ScheduleTable("zb_h1", microbatches, placed_in_turn(ranks, 1), of_ranks)


def zb_v(ranks: int, microbatches: int) -> ScheduleTable:
    """ZB-V: section 6 of Qi et al. 2023.

    The second stage of a rank is as far from the end as its first stage is from the beginning, so
    that all ranks hold the same amount and no rank waits at the end.
    """
    most = max(microbatches, 2 * ranks - 1)
    of_ranks = []
    for rank in range(ranks):
        rows = _v_order(rank, ranks, most)
        of_ranks.append(rows[rows[:, 2] < microbatches])
    return ScheduleTable("zb_v", microbatches, placed_as_v(ranks), of_ranks)


def _v_order(rank: int, ranks: int, microbatches: int) -> IntArray:
    stages = {"down": rank, "up": 2 * ranks - 1 - rank}
    pieces: list[tuple[tuple[tuple[str, Pass], ...], int]] = [
        ((_DOWN_F,), 2 * (ranks - rank) - 1),
        ((_UP_F, _DOWN_F), rank),
        ((_UP_F, _UP_I, _UP_W), ranks - rank),
        # steady state: one microbatch down, one up
        ((_DOWN_F, _DOWN_I, _DOWN_W, _UP_F, _UP_I, _UP_W), microbatches - (2 * ranks - rank - 1)),
        ((_DOWN_I, _DOWN_W, _UP_F, _UP_I, _UP_W), ranks - rank - 1),
        ((_DOWN_I, _UP_I), rank),
        ((_DOWN_I, _DOWN_W), ranks - rank),
    ]
    codes = np.concatenate(
        [
            np.tile(np.array([(stages[way], what) for way, what in piece]), (times, 1))
            for piece, times in pieces
        ]
    )
    late = [
        _rows(stages[way], Pass.W, np.arange(microbatches))[_count(codes, stages[way], Pass.W) :]
        for way in ("up", "down")
    ]
    rows = np.column_stack([codes, np.zeros(len(codes), dtype=np.int64)])
    for stage in stages.values():
        for what in (Pass.F, Pass.I, Pass.W):
            matches = (codes[:, 0] == stage) & (codes[:, 1] == what)
            rows[matches, 2] = np.arange(matches.sum())
    return np.concatenate([rows, *late])


def _count(codes: IntArray, stage: int, what: Pass) -> int:
    return int(((codes[:, 0] == stage) & (codes[:, 1] == what)).sum())


def _one_f_one_b_rows(
    rank: int, ranks: int, stages_per_rank: int, microbatches: int, in_round: int
) -> IntArray:
    """Warm-up forwards, then one forward and one backward in turn, then the remaining backwards.

    A round of microbatches passes through each of the rank's stages before the next round begins.
    The backward passes begin with the last stage.
    """
    total = microbatches * stages_per_rank
    hop = 1 if stages_per_rank == 1 else 2
    ahead = (stages_per_rank - 1) * in_round + hop * (ranks - 1 - rank)
    ahead = min(ahead, total)
    number = np.arange(total)
    chunk = number // in_round % stages_per_rank
    microbatch = number // (in_round * stages_per_rank) * in_round + number % in_round
    rows = np.empty((2 * total, 3), dtype=np.int64)
    forwards = np.where(number < ahead, number, 2 * number - ahead)
    backwards = np.where(number < total - ahead, ahead + 2 * number + 1, total + number)
    rows[forwards] = _rows(chunk * ranks + rank, Pass.F, microbatch)
    rows[backwards] = _rows((stages_per_rank - 1 - chunk) * ranks + rank, Pass.B, microbatch)
    return rows


def _rows(stage: int | IntArray, what: Pass, microbatches: IntArray) -> IntArray:
    rows = np.empty((len(microbatches), 3), dtype=np.int64)
    rows[:, 0], rows[:, 1], rows[:, 2] = stage, what, microbatches
    return rows


_DOWN_F, _DOWN_I, _DOWN_W = (("down", what) for what in (Pass.F, Pass.I, Pass.W))
_UP_F, _UP_I, _UP_W = (("up", what) for what in (Pass.F, Pass.I, Pass.W))
_OF_ONE_STAGE: dict[str, Callable[[int, int], ScheduleTable]] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "zb_h1": zb_h1,
}
KINDS = (*_OF_ONE_STAGE, "interleaved_1f1b", "zb_v")


def check_schedule(kind: str, ranks: int, microbatches: int, stages_per_rank: int = 1) -> None:
    """Raise InvalidInput for an unknown kind, or for numbers that the kind does not support."""
    if kind not in KINDS:
        raise InvalidInput(f"unknown schedule {kind!r}. Use {', '.join(KINDS)}")
    if kind == "interleaved_1f1b":
        rounds = max(1, microbatches // ranks)
        if microbatches % rounds:
            raise InvalidInput(
                f"interleaved_1f1b on {ranks} pipeline ranks cannot divide {microbatches} "
                f"microbatches into {rounds} equal rounds. Use a multiple of {ranks}"
            )
        return
    expected = 2 if kind == "zb_v" else 1
    if stages_per_rank != expected:
        raise InvalidInput(
            f"{kind} needs stages_per_rank {expected}, got {stages_per_rank}. Use {expected}"
        )


def schedule(kind: str, ranks: int, microbatches: int, stages_per_rank: int = 1) -> ScheduleTable:
    """The schedule of a kind; raises InvalidInput as `check_schedule` does."""
    check_schedule(kind, ranks, microbatches, stages_per_rank)
    if kind == "interleaved_1f1b":
        return interleaved(ranks, microbatches, stages_per_rank)
    factory = zb_v if kind == "zb_v" else _OF_ONE_STAGE[kind]
    return factory(ranks, microbatches)
