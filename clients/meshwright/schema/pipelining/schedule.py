"""Pipeline schedules: what each pipeline rank does, one action after the other.

A *stage* is a stretch of the graph, numbered from 0; a *pipeline rank* is the devices that hold one
stage or several. An action is one of a stage's passes over one microbatch:

    F   forward
    B   backward, of inputs and weights at once
    I   backward, of inputs alone: what the stage before waits for
    W   backward, of weights alone: nobody waits for it but the optimizer

I and W are the halves of B where a schedule splits it (Qi et al. 2023, "Zero Bubble Pipeline
Parallelism"). What F saved is held until B or I has run; from I to W there is what W needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from meshwright.schema.arrays import FloatArray, IntArray


class Pass(IntEnum):
    """What an action does; the names are those of PyTorch's pipeline schedules."""

    F = 0
    B = 1
    I = 2  # noqa: E741  # the field's letter
    W = 3


class Action(NamedTuple):
    """A pass of a stage over a microbatch."""

    stage: int
    what: Pass
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.what.name}{self.microbatch}"


@dataclass(frozen=True, eq=False)
class Schedule:
    """rank_of[s]: the rank that holds stage s. of_ranks[r]: what pipeline rank r does, first to
    last, as rows (stage, pass, microbatch).

    Every stage makes every pass over every microbatch once: F and B, or F, I and W.
    """

    kind: str
    microbatches: int
    rank_of: tuple[int, ...]
    of_ranks: Sequence[IntArray]

    @property
    def ranks(self) -> int:
        return len(self.of_ranks)

    @property
    def stages(self) -> int:
        return len(self.rank_of)

    @cached_property
    def orders(self) -> tuple[tuple[Action, ...], ...]:
        """What each rank does, action by action."""
        return tuple(
            tuple(Action(stage, Pass(what), number) for stage, what, number in rows.tolist())
            for rows in self.of_ranks
        )

    @cached_property
    def is_split(self) -> bool:
        """Whether backward passes are split into I and W."""
        return bool((self.of_ranks[0][:, 1] == Pass.W).any())

    @cached_property
    def in_flight(self) -> tuple[int, ...]:
        """The most microbatches of which each stage holds something at one time."""
        one = np.eye(self.stages)
        return tuple(
            round(self.most_held(rank, one[stage], one[stage]))
            for stage, rank in enumerate(self.rank_of)
        )

    def most_held(self, rank: int, saved: FloatArray, waiting: FloatArray) -> float:
        """The most that a rank's stages hold at one time.

        saved, waiting: by stage, of one microbatch: until its backward pass, and from I to W.
        """
        return float(np.cumsum(self._changes(rank, saved, waiting)).max(initial=0.0))

    def held_at(self, rank: int, stages: Collection[int], ratios: FloatArray) -> FloatArray:
        """By ratio: of how many microbatches the saved bytes are the most that some stages of a
        rank hold, where each saves as much and what waits is so many times that."""
        stage, what, _ = self.of_ranks[rank].T
        own = np.isin(stage, list(stages))
        saved = np.cumsum(np.where(own, _SAVED[what], 0.0))
        waiting = np.cumsum(np.where(own, _WAITING[what], 0.0))
        found: FloatArray = (saved + ratios[:, None] * waiting).max(axis=1, initial=0.0)
        return found

    def held_before(self, rank: int, saved: FloatArray, waiting: FloatArray) -> FloatArray:
        """What a rank's stages hold when each of its actions begins; see `most_held`."""
        changes = self._changes(rank, saved, waiting)
        held: FloatArray = np.cumsum(changes) - changes
        return held

    def _changes(self, rank: int, saved: FloatArray, waiting: FloatArray) -> FloatArray:
        stage, what, _ = self.of_ranks[rank].T
        found: FloatArray = saved[stage] * _SAVED[what] + waiting[stage] * _WAITING[what]
        return found

    @cached_property
    def table(self) -> tuple[IntArray, IntArray]:
        """All actions as rows (stage, pass, microbatch), and where each rank's begin and end."""
        counts = [len(rows) for rows in self.of_ranks]
        return (
            np.concatenate(self.of_ranks),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        )


# by pass: F saves, B and I let go; what W needs is there from I on
_SAVED = np.array([1.0, -1.0, -1.0, 0.0])
_WAITING = np.array([0.0, 0.0, 1.0, -1.0])


def placed_in_turn(ranks: int, stages_per_rank: int) -> tuple[int, ...]:
    """Stage s on rank s modulo the ranks: 0 1 2 0 1 2."""
    return tuple(range(ranks)) * stages_per_rank


def placed_as_v(ranks: int) -> tuple[int, ...]:
    """Two stages a rank, down and up again: 0 1 2 2 1 0. First and last stage share a rank."""
    return (*range(ranks), *reversed(range(ranks)))


def stages_on(rank_of: Iterable[int], rank: int) -> list[int]:
    return [stage for stage, own in enumerate(rank_of) if own == rank]
