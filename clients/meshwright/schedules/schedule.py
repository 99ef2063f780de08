"""Pipeline schedules: the sequence of actions of each pipeline rank.

A *stage* is a part of the graph, numbered from 0. A *pipeline rank* is a group of devices that runs
one stage or several. An action is one pass of a stage over one microbatch:

    F   forward
    B   backward, for inputs and weights
    I   backward, for inputs only: the previous stage waits for it
    W   backward, for weights only: only the optimizer waits for it

I and W are the halves of B in a schedule that splits it (Qi et al. 2023, "Zero Bubble Pipeline
Parallelism"). A stage holds the activations that F saves until B or I, and the inputs of W from I
to W.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np

from meshwright.common.arrays import FloatArray, IntArray


class Pass(IntEnum):
    """The kind of an action, named as in PyTorch's pipeline schedules."""

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
class ScheduleTable:
    """The actions of all pipeline ranks.

    `rank_of[s]` is the rank of stage s. `of_ranks[r]` are the actions of pipeline rank r in order:
    an array of the shape (actions, 3) with the columns stage, pass and microbatch.

    Every stage runs every pass over every microbatch once: F and B, or F, I and W.
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
        """The actions of each rank, in order."""
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
        """The maximum number of microbatches for which each stage holds activations."""
        unit = np.eye(self.stages)
        return tuple(
            round(self.most_held(rank, unit[stage], unit[stage]))
            for stage, rank in enumerate(self.rank_of)
        )

    def most_held(self, rank: int, saved: FloatArray, waiting: FloatArray) -> float:
        """The maximum of what a rank's stages hold at one time, in the unit of the arguments.

        The arguments have the shape (stages,), for one microbatch: `saved` is held from F to B or
        I, `waiting` from I to W.
        """
        return float(np.cumsum(self._changes(rank, saved, waiting)).max(initial=0.0))

    def held_at(self, rank: int, stages: Collection[int], ratios: FloatArray) -> FloatArray:
        """The maximum that some stages of a rank hold, in saved microbatches, by ratio.

        Each stage saves the same amount, and the part that waits for W is `ratio` times that. The
        argument `ratios` and the result have the shape (ratios,).
        """
        stage, what, _ = self.of_ranks[rank].T
        on_stages = np.isin(stage, list(stages))
        saved = np.cumsum(np.where(on_stages, _SAVED[what], 0.0))
        waiting = np.cumsum(np.where(on_stages, _WAITING[what], 0.0))
        maxima: FloatArray = (saved + ratios[:, None] * waiting).max(axis=1, initial=0.0)
        return maxima

    def held_before(self, rank: int, saved: FloatArray, waiting: FloatArray) -> FloatArray:
        """(actions,) What a rank's stages hold when each action begins, as in `most_held`."""
        changes = self._changes(rank, saved, waiting)
        held: FloatArray = np.cumsum(changes) - changes
        return held

    def _changes(self, rank: int, saved: FloatArray, waiting: FloatArray) -> FloatArray:
        stage, what, _ = self.of_ranks[rank].T
        changes: FloatArray = saved[stage] * _SAVED[what] + waiting[stage] * _WAITING[what]
        return changes

    @cached_property
    def table(self) -> tuple[IntArray, IntArray]:
        """All actions as rows (stage, pass, microbatch), and the offset of each rank's first row.

        Shapes: (actions, 3) and (ranks + 1,).
        """
        counts = [len(rows) for rows in self.of_ranks]
        return (
            np.concatenate(self.of_ranks),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        )


# changes by pass: F saves, B and I release; I creates the inputs of W
_SAVED = np.array([1.0, -1.0, -1.0, 0.0])
_WAITING = np.array([0.0, 0.0, 1.0, -1.0])


def placed_in_turn(ranks: int, stages_per_rank: int) -> tuple[int, ...]:
    """Stage s on rank s modulo the ranks: 0 1 2 0 1 2."""
    return tuple(range(ranks)) * stages_per_rank


def placed_as_v(ranks: int) -> tuple[int, ...]:
    """Two stages per rank in a V: 0 1 2 2 1 0. The first and the last stage share a rank."""
    return (*range(ranks), *reversed(range(ranks)))


def stages_on(rank_of: Iterable[int], rank: int) -> list[int]:
    """The stages of a pipeline rank."""
    return [stage for stage, holder in enumerate(rank_of) if holder == rank]
