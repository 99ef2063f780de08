"""The schedules that there are, by the names of Megatron-LM and PyTorch.

    gpipe             all forwards, then all backwards: every microbatch is held (Huang et al. 2018)
    1f1b              one forward, one backward; rank r of p holds p - r (Narayanan et al. 2019)
    interleaved_1f1b  v stages a rank: a bubble v times smaller, v times the transfers (Narayanan et
                      al. 2021, "Efficient Large-Scale Language Model Training")
    zb_h1             backwards split, weights' half where a bubble was; every rank holds as much as
                      the first of 1f1b (Qi et al. 2023)
    zb_v              the same with two stages a rank in a V: no rank waits between its first and
                      its last pass where all passes take as long

With equal stages of forward time F and backward times I and W a rank waits, over a step, for

    gpipe, 1f1b        (p - 1) (F + I + W)
    interleaved_1f1b   (p - 1) (F + I + W) / v
    zb_h1              (p - 1) (F + I - W)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import count, product

from meshwright.schema import InvalidInput
from solver.pipeline.schedule import Action, Pass, Schedule, placed_as_v, placed_in_turn


def gpipe(ranks: int, microbatches: int) -> Schedule:
    forward = [(Pass.F, number) for number in range(microbatches)]
    backward = [(Pass.B, number) for number in range(microbatches)]
    orders = tuple(
        tuple(Action(rank, what, number) for what, number in (*forward, *backward))
        for rank in range(ranks)
    )
    return Schedule("gpipe", microbatches, placed_in_turn(ranks, 1), orders)


def one_f_one_b(ranks: int, microbatches: int) -> Schedule:
    orders = tuple(_alternating(rank, ranks, 1, microbatches, ranks) for rank in range(ranks))
    return Schedule("1f1b", microbatches, placed_in_turn(ranks, 1), orders)


def interleaved(ranks: int, microbatches: int, stages_per_rank: int) -> Schedule:
    """Microbatches go through in rounds of as many as there are ranks, or more of equal length."""
    in_round = microbatches // max(1, microbatches // ranks)
    orders = tuple(
        _alternating(rank, ranks, stages_per_rank, microbatches, in_round) for rank in range(ranks)
    )
    return Schedule(
        "interleaved_1f1b", microbatches, placed_in_turn(ranks, stages_per_rank), orders
    )


def zb_h1(ranks: int, microbatches: int) -> Schedule:
    """Rank r makes weights' halves r backwards late, so that all hold as much as the first."""
    orders = []
    for rank in range(ranks):
        order: list[Action] = []
        late: deque[Action] = deque()
        for action in _alternating(rank, ranks, 1, microbatches, ranks):
            if action.what is Pass.F:
                order.append(action)
                continue
            order.append(action._replace(what=Pass.I))
            late.append(action._replace(what=Pass.W))
            if len(late) > rank:
                order.append(late.popleft())
        orders.append((*order, *late))
    return Schedule("zb_h1", microbatches, placed_in_turn(ranks, 1), tuple(orders))


def zb_v(ranks: int, microbatches: int) -> Schedule:
    """Section 6 of Qi et al. 2023: every rank's second stage is as far from the end as its first
    is from the beginning, so that all ranks hold as much and none waits at the end."""
    most = max(microbatches, 2 * ranks - 1)
    orders = []
    for rank in range(ranks):
        order = _v_order(rank, ranks, most)
        orders.append(tuple(action for action in order if action.microbatch < microbatches))
    return Schedule("zb_v", microbatches, placed_as_v(ranks), tuple(orders))


def _v_order(rank: int, ranks: int, microbatches: int) -> list[Action]:
    order: list[Action] = []
    done = dict.fromkeys(product(_V, (Pass.F, Pass.I, Pass.W)), 0)

    def run(way: str, *passes: Pass) -> None:
        for what in passes:
            stage = rank if way == "down" else 2 * ranks - 1 - rank
            order.append(Action(stage, what, done[way, what]))
            done[way, what] += 1

    for _ in range(2 * (ranks - rank) - 1):
        run("down", Pass.F)
    for _ in range(rank):
        run("up", Pass.F)
        run("down", Pass.F)
    for _ in range(ranks - rank):
        run("up", Pass.F, Pass.I, Pass.W)
    while done["up", Pass.F] < microbatches:
        if done["down", Pass.F] < microbatches:
            run("down", Pass.F)
        run("down", Pass.I, Pass.W)
        run("up", Pass.F, Pass.I, Pass.W)
    for _ in range(rank):
        run("down", Pass.I)
        run("up", Pass.I)
    for _ in range(ranks - rank):
        run("down", Pass.I, Pass.W)
    for way in reversed(_V):
        while done[way, Pass.W] < microbatches:
            run(way, Pass.W)
    return order


def _alternating(
    rank: int, ranks: int, stages_per_rank: int, microbatches: int, in_round: int
) -> tuple[Action, ...]:
    """Forwards until the first backward can come, then one of each, then the backwards left."""
    total = microbatches * stages_per_rank
    hop = 1 if stages_per_rank == 1 else 2
    ahead = (stages_per_rank - 1) * in_round + hop * (ranks - 1 - rank)
    ahead = min(ahead, total)
    chunks = range(stages_per_rank)
    forwards = _passes(Pass.F, rank, ranks, chunks, in_round)
    backwards = _passes(Pass.B, rank, ranks, chunks[::-1], in_round)
    order = [next(forwards) for _ in range(ahead)]
    for _ in range(total - ahead):
        order += [next(forwards), next(backwards)]
    order += [next(backwards) for _ in range(ahead)]
    return tuple(order)


def _passes(what: Pass, rank: int, ranks: int, chunks: range, in_round: int) -> Iterator[Action]:
    """A round of microbatches through each of the rank's stages, then the next round."""
    for first in count(0, in_round):
        for chunk in chunks:
            for number in range(first, first + in_round):
                yield Action(chunk * ranks + rank, what, number)


_V = ("down", "up")
_OF_ONE_STAGE: dict[str, Callable[[int, int], Schedule]] = {
    "gpipe": gpipe,
    "1f1b": one_f_one_b,
    "zb_h1": zb_h1,
}
KINDS = (*_OF_ONE_STAGE, "interleaved_1f1b", "zb_v")


def check_schedule(kind: str, ranks: int, microbatches: int, stages_per_rank: int = 1) -> None:
    """Raises InvalidInput for a kind that is not known or cannot be made of these numbers."""
    if kind not in KINDS:
        raise InvalidInput(f"no schedule is called {kind!r}; there are {', '.join(KINDS)}")
    if kind == "interleaved_1f1b":
        rounds = max(1, microbatches // ranks)
        if microbatches % rounds:
            raise InvalidInput(
                f"interleaved_1f1b on {ranks} pipeline ranks cannot cut {microbatches} "
                f"microbatches into {rounds} equal rounds; a multiple of {ranks} would do"
            )
        return
    wanted = 2 if kind == "zb_v" else 1
    if stages_per_rank != wanted:
        raise InvalidInput(
            f"{kind} has {wanted} stage(s) on a pipeline rank, {stages_per_rank} asked for"
        )


def schedule(kind: str, ranks: int, microbatches: int, stages_per_rank: int = 1) -> Schedule:
    """Raises what `check_schedule` raises."""
    check_schedule(kind, ranks, microbatches, stages_per_rank)
    if kind == "interleaved_1f1b":
        return interleaved(ranks, microbatches, stages_per_rank)
    made = zb_v if kind == "zb_v" else _OF_ONE_STAGE[kind]
    return made(ranks, microbatches)
