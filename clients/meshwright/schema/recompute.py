"""Activation recomputation: the backward pass recomputes activations that are not saved.

A *segment* is a contiguous sequence of ops. Some of its ops are recomputed together, immediately
before the backward pass of the segment. Their inputs are saved, their outputs are not.

    selective   the ops between two products of activations: the attention scores
    cheap       all ops except products with parameters, convolutions and fused attention
    full        all ops of a block; only the inputs of the block are saved
    ops         op by op: the least time for the memory that must be free
    stated      the ops that the request names

A *block* is one of the repeated parts of a graph, such as a layer. A policy recomputes the ops of a
block that save the most memory, and no op that saves none.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from meshwright.schema.errors import InvalidInput, PlanError, RequestError
from meshwright.schema.model import Model, Whole

RecomputePolicy = Literal["none", "selective", "cheap", "full", "ops", "stated"]
MAX_GLOBS = 1000  # chosen, as of pins


class Recompute(Model):
    """The options of activation recomputation in a request."""

    error: ClassVar[type[InvalidInput]] = RequestError

    policy: Literal["none", "selective", "cheap", "full", "ops", "stated", "auto"] = Field(
        default="auto",
        description="The recomputation policy. `auto`: the policy with the fastest step that fits "
        "in memory.",
    )
    blocks: Whole | None = Field(
        default=None,
        ge=0,
        description="The number of blocks of each pipeline stage that are recomputed, from the "
        "first. None: all.",
    )
    ops: tuple[str, ...] = Field(
        default=(),
        max_length=MAX_GLOBS,
        description="Globs of names or module paths of the ops that the policy `stated` "
        "recomputes.",
    )
    communication: Literal["auto", "repeat", "keep"] = Field(
        default="auto",
        description="The redistributions of activations that recomputed ops make or read. "
        "`repeat`: they run again. `keep`: their results are saved. `auto`: the search chooses.",
    )

    @model_validator(mode="after")
    def _check_ops(self) -> Recompute:
        if (self.policy == "stated") != bool(self.ops):
            raise RequestError(
                f"recompute {self.policy!r} with {len(self.ops)} globs of ops. Give `ops` with the "
                "policy `stated` only",
                pointer="/ops",
            )
        if self.policy == "stated" and self.blocks is not None:
            raise RequestError(
                "recompute 'stated' with a number of blocks. Leave `blocks` out", pointer="/blocks"
            )
        return self


NO_RECOMPUTE = Recompute(policy="none")


class Segment(Model):
    """A segment: a contiguous sequence of ops with its recomputed ops."""

    ops: tuple[str, ...] = Field(description="The names of the ops, in order.")
    again: tuple[str, ...] = Field(description="The names of the ops that are recomputed.")

    @model_validator(mode="after")
    def _check(self) -> Segment:
        foreign = sorted(set(self.again) - set(self.ops))
        if foreign:
            raise PlanError(
                f"a segment of recompute repeats {foreign[0]!r}, which is not one of its ops"
            )
        if len(set(self.again)) != len(self.again):
            twice = next(op for op in self.again if self.again.count(op) > 1)
            raise PlanError(f"a segment of recompute repeats {twice!r} twice")
        return self


class Recomputed(Model):
    """The activation recomputation of a stage."""

    policy: RecomputePolicy = Field(description="The recomputation policy.")
    segments: tuple[Segment, ...] = Field(min_length=1, description="The segments of the stage.")

    @model_validator(mode="after")
    def _check(self) -> Recomputed:
        if self.policy == "none":
            raise PlanError("recompute none has no segments. Leave both out")
        seen: set[str] = set()
        for op in (op for segment in self.segments for op in segment.ops):
            if op in seen:
                raise PlanError(f"op {op!r} is listed twice in segments of recompute")
            seen.add(op)
        return self
