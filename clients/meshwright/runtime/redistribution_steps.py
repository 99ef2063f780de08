"""Redistribution steps: the plan's steps for one tensor, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from meshwright.schema import Layout, Step
from meshwright.stages.planned_stage import ALL_READERS, PlanReader

Cause = Literal["forward", "backward", "again", "step", "own", "count", "report", "fallback"]


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """The steps that convert a rank's shard of `tensor` from one layout to another."""

    tensor: str
    before: Layout
    steps: tuple[Step, ...]
    cause: Cause

    @property
    def after(self) -> Layout:
        return self.steps[-1].to if self.steps else self.before


@dataclass(frozen=True, slots=True)
class ForwardAndBackward:
    """The redistribution of a value and that of its gradient.

    `is_again` is true if the backward pass repeats the forward steps. `reader` is the reader in the
    plan.
    """

    forward: LayoutChange
    backward: LayoutChange
    reader: PlanReader = ALL_READERS
    is_again: bool = False
