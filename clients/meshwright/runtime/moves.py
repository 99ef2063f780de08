"""Moves of one tensor: the plan's steps from one layout to the next, there and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from meshwright.runtime.stage import ALL_READERS, PlanReader
from meshwright.schema import Layout, Step

Cause = Literal["forward", "backward", "again", "step", "own", "count", "report", "fallback"]


@dataclass(frozen=True, slots=True)
class Move:
    """Steps that bring what a rank holds of `tensor` from one layout to the next."""

    tensor: str
    before: Layout
    steps: tuple[Step, ...]
    cause: Cause

    @property
    def after(self) -> Layout:
        return self.steps[-1].to if self.steps else self.before


@dataclass(frozen=True, slots=True)
class Way:
    """There and back: moves of a value, then those of its gradient. is_again: the value's moves are
    repeated in the backward pass. reader: as the plan names it."""

    forward: Move
    backward: Move
    reader: PlanReader = ALL_READERS
    is_again: bool = False
