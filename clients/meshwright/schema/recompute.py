"""Recompute: what of the forward pass is done again in the backward pass, instead of being saved.

A *segment* is a stretch of ops of which some are done again together, right before the backward
pass of them all. What these make is not saved, what they read is.

    selective   what lies between two products of activations: the scores of attention
    cheap       all but products with parameters, convolutions and fused attention
    full        all of a block but what it reads
    ops         op by op: what takes least time for the memory that has to be free

A *block* is one of the repeated parts of a graph: a layer. In each the ops are done again whose
results take most to save; no more than that frees.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from meshwright.schema.errors import PlanError
from meshwright.schema.model import Model, Whole

RecomputePolicy = Literal["none", "selective", "cheap", "full", "ops"]


class Recompute(Model):
    """What a request wants done again.

    policy: `auto` for the one with the fastest step that fits. blocks: only in so many blocks, the
    first of each pipeline stage; None for all.
    """

    policy: Literal["none", "selective", "cheap", "full", "ops", "auto"] = "none"
    blocks: Whole | None = Field(default=None, ge=0)


class Segment(Model):
    """Its ops, in order, and those of them that are done again."""

    ops: tuple[str, ...]
    again: tuple[str, ...]

    @model_validator(mode="after")
    def _repeats_its_own(self) -> Segment:
        foreign = sorted(set(self.again) - set(self.ops))
        if foreign:
            raise PlanError(
                f"a segment of recompute repeats {foreign[0]!r}, which is none of its ops"
            )
        if len(set(self.again)) != len(self.again):
            twice = next(op for op in self.again if self.again.count(op) > 1)
            raise PlanError(f"a segment of recompute repeats {twice!r} twice")
        return self


class Recomputed(Model):
    """What a stage does again."""

    policy: RecomputePolicy
    segments: tuple[Segment, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _has_every_op_once(self) -> Recomputed:
        if self.policy == "none":
            raise PlanError("recompute none has no segments; leave both out")
        seen: set[str] = set()
        for op in (op for own in self.segments for op in own.ops):
            if op in seen:
                raise PlanError(f"op {op!r} is listed twice in segments of recompute")
            seen.add(op)
        return self
