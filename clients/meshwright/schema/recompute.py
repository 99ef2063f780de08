"""Recompute: what of the forward pass is done again in the backward pass, instead of being saved.

A *segment* is a stretch of ops of which some are done again together, right before the backward
pass of them all. What these make is not saved, what they read is.

    selective   what lies between two products of activations: the scores of attention
    cheap       all but products with parameters, convolutions and fused attention
    full        all of a block but what it reads

A *block* is one of the repeated parts of a graph: a layer. In each the ops are done again whose
results take most to save; no more than that frees.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from meshwright.schema.model import Model, Whole

RecomputePolicy = Literal["none", "selective", "cheap", "full"]


class Recompute(Model):
    """What a request wants done again.

    policy: `auto` for the one with the fastest step that fits. blocks: only in so many blocks, the
    first of each pipeline stage; None for all.
    """

    policy: RecomputePolicy | Literal["auto"] = "none"
    blocks: Whole | None = Field(default=None, ge=0)


class Segment(Model):
    """Its ops, in order, and those of them that are done again."""

    ops: tuple[str, ...]
    again: tuple[str, ...]


class Recomputed(Model):
    """What a stage does again."""

    policy: RecomputePolicy
    segments: tuple[Segment, ...]
