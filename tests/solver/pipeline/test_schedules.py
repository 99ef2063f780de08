"""Orders against PyTorch's own, bubbles against closed forms."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from torch.distributed.pipelining import schedules as pytorch

from meshwright.schedules.kinds import KINDS, schedule
from meshwright.schedules.schedule import Action, Pass, ScheduleTable, placed_in_turn
from meshwright.schema import InvalidInput
from meshwright_solver.pipeline.schedule_run import DeadlockError, Durations, run

_PYTORCH = {
    "interleaved_1f1b": pytorch.ScheduleInterleaved1F1B,
    "zb_h1": pytorch.ScheduleInterleavedZeroBubble,
    "zb_v": pytorch.ScheduleZBVZeroBubble,
}
_LETTERS = {"FORWARD": "F", "FULL_BACKWARD": "B", "BACKWARD_INPUT": "I", "BACKWARD_WEIGHT": "W"}
SIZES = [(2, 4), (3, 9), (4, 8), (4, 12), (8, 32)]


def all_kinds() -> list[tuple[str, int]]:
    several = {"interleaved_1f1b": (2, 3), "zb_v": (2,)}
    return [(kind, count) for kind in KINDS for count in several.get(kind, (1,))]


def durations(
    stages: int, forward: float, inputs: float, weights: float, transfer: float = 0.0
) -> Durations:
    return Durations(
        np.full(stages, forward),
        np.full(stages, inputs),
        np.full(stages, weights),
        np.full((2, stages - 1), transfer),
    )


def pytorch_order(kind: str, ranks: int, microbatches: int, count: int, rank: int) -> list[Action]:
    """As PyTorch makes it; what its constructor wants beyond numbers is a process group."""
    own = object.__new__(_PYTORCH[kind])
    own.pp_group_size, own.n_local_stages, own.num_stages = ranks, count, ranks * count
    own._n_microbatches, own.rank = microbatches, rank
    own.number_of_rounds = max(1, microbatches // ranks)
    own.microbatches_per_round = microbatches // own.number_of_rounds
    return [
        Action(
            found.stage_index, Pass[_LETTERS[found.computation_type.name]], found.microbatch_index
        )
        for found in own._calculate_single_rank_operations(rank)
        if found is not None
    ]


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
@pytest.mark.parametrize(("kind", "count"), [("interleaved_1f1b", 2), ("zb_h1", 1), ("zb_v", 2)])
def test_orders_are_pytorchs(kind: str, count: int, ranks: int, microbatches: int) -> None:
    made = schedule(kind, ranks, microbatches, count)
    for rank in range(ranks):
        wanted = pytorch_order(kind, ranks, microbatches, count, rank)
        assert list(made.orders[rank]) == wanted


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
@pytest.mark.parametrize(("kind", "count"), all_kinds())
def test_every_stage_makes_every_pass_once(
    kind: str, count: int, ranks: int, microbatches: int
) -> None:
    made = schedule(kind, ranks, microbatches, count)
    passes = (Pass.F, Pass.I, Pass.W) if made.is_split else (Pass.F, Pass.B)
    found = Counter(action for order in made.orders for action in order)
    stages = range(ranks * count)
    assert found == Counter(Action(*own) for own in product(stages, passes, range(microbatches)))
    for rank, order in enumerate(made.orders):
        assert {made.rank_of[action.stage] for action in order} == {rank}


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
@pytest.mark.parametrize(
    ("forward", "inputs", "weights"), [(1.0, 1.0, 1.0), (4.0, 5.0, 3.0), (10.0, 10.0, 9.0)]
)
def test_bubbles_have_their_closed_forms(
    ranks: int, microbatches: int, forward: float, inputs: float, weights: float
) -> None:
    work = microbatches * (forward + inputs + weights)

    def waits(kind: str, count: int = 1) -> float:
        lengths = (forward / count, inputs / count, weights / count)
        made = run(schedule(kind, ranks, microbatches, count), durations(ranks * count, *lengths))
        bubbles = [made.bubble_ns(rank) for rank in range(ranks)]
        assert made.ns == pytest.approx(work + bubbles[0])
        assert bubbles == pytest.approx([bubbles[0]] * ranks)
        return bubbles[0]

    whole = (ranks - 1) * (forward + inputs + weights)
    assert waits("gpipe") == pytest.approx(whole)
    assert waits("1f1b") == pytest.approx(whole)
    assert waits("interleaved_1f1b", 2) == pytest.approx(whole / 2)
    assert waits("interleaved_1f1b", 4) == pytest.approx(whole / 4)
    assert waits("zb_h1") == pytest.approx((ranks - 1) * (forward + inputs - weights))


@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 4), (4, 8), (8, 32)])
def test_no_rank_of_a_v_waits_in_between(ranks: int, microbatches: int) -> None:
    made = run(schedule("zb_v", ranks, microbatches, 2), durations(2 * ranks, 1.0, 1.0, 1.0))
    for rank in range(ranks):
        own = made.of_rank(rank)
        assert own[-1][2] - own[0][1] == pytest.approx(made.busy_ns(rank))


@pytest.mark.parametrize(("ranks", "microbatches"), [(4, 8), (8, 32)])
def test_what_is_held(ranks: int, microbatches: int) -> None:
    def held(kind: str, count: int = 1) -> tuple[int, ...]:
        return schedule(kind, ranks, microbatches, count).in_flight

    assert held("gpipe") == (microbatches,) * ranks
    assert held("1f1b") == tuple(range(ranks, 0, -1))
    assert held("zb_h1") == (ranks,) * ranks
    of_v = held("zb_v", 2)
    assert [of_v[rank] + of_v[-1 - rank] for rank in range(ranks)] == [2 * ranks + 1] * ranks


def test_two_ranks_by_hand() -> None:
    """1f1b with transfers of 1 between 2 ranks, F 2, B 4:

    rank 0: F0 0-2, F1 2-4,          B0 10-14, B1 16-20
    rank 1: F0 3-5, B0 5-9, F1 9-11, B1 11-15; the gradients arrive at 10 and 16
    """
    made = run(schedule("1f1b", 2, 2), durations(2, 2.0, 3.0, 1.0, 1.0))
    assert [(str(action), start) for action, start, _ in made.of_rank(0)] == [
        ("0F0", 0.0),
        ("0F1", 2.0),
        ("0B0", 10.0),
        ("0B1", 16.0),
    ]
    assert [start for _, start, _ in made.of_rank(1)] == [3.0, 5.0, 9.0, 11.0]
    assert made.ns == 20.0


def test_a_busy_link_is_waited_for() -> None:
    """F takes 1, a transfer 5: the second microbatch leaves when the first has arrived."""
    made = run(schedule("gpipe", 2, 2), durations(2, 1.0, 1.0, 1.0, 5.0))
    assert [start for _, start, _ in made.of_rank(1)][:2] == [6.0, 11.0]


def test_a_deadlock_is_named() -> None:
    first = np.array([Action(0, Pass.B, 0), Action(0, Pass.F, 0)])
    second = np.array([Action(1, Pass.F, 0), Action(1, Pass.B, 0)])
    stuck = ScheduleTable("1f1b", 1, placed_in_turn(2, 1), (first, second))
    with pytest.raises(DeadlockError, match="0B0, 1F0"):
        run(stuck, durations(2, 1.0, 1.0, 1.0))


def test_what_cannot_be_made_is_said() -> None:
    with pytest.raises(InvalidInput, match=r"unknown schedule 'zb-h1'\. Use gpipe"):
        schedule("zb-h1", 4, 8)
    with pytest.raises(InvalidInput, match="zb_v needs stages_per_rank 2"):
        schedule("zb_v", 4, 8)
    with pytest.raises(InvalidInput, match="Use a multiple of 4"):
        schedule("interleaved_1f1b", 4, 9, 2)
