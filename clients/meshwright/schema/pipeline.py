"""Pipelines: how stages of a graph take turns on their devices.

A *pipeline rank* is the devices that hold one stage, or several: virtual stages. Names of schedules
are those of Megatron-LM and PyTorch.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from meshwright.schema.errors import RequestError
from meshwright.schema.model import Model, Ns, Whole
from meshwright.schema.step import Step

MAX_STAGES_PER_RANK = 16  # chosen: more than any published configuration has
ScheduleKind = Literal["gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_v"]


class Pipeline(Model):
    """What a request wants of the pipeline; None leaves it to the search.

    ranks: 1 for none. stages_per_rank: more than one with `interleaved_1f1b`, two with `zb_v`.
    cuts: the op with which each stage but the first begins.
    """

    ranks: Whole | None = Field(default=1, ge=1)
    stages_per_rank: Whole | None = Field(default=None, ge=1, le=MAX_STAGES_PER_RANK)
    schedule: ScheduleKind | None = None
    cuts: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _agrees(self) -> Pipeline:
        if self.ranks == 1 and (self.cuts or self.schedule or (self.stages_per_rank or 1) > 1):
            raise RequestError(
                "a pipeline of one rank has no schedule, no cuts and no virtual stages; ask for "
                "more ranks, or leave their number to the search",
                pointer="/ranks",
            )
        if self.cuts and self.ranks is not None:
            stages = self.ranks * (self.stages_per_rank or 1)
            if len(self.cuts) != stages - 1:
                raise RequestError(
                    f"{stages} stages have {stages - 1} cuts, {len(self.cuts)} are given",
                    pointer="/cuts",
                )
        return self


class Schedule(Model):
    """In which order stages make their passes. Stage s is on rank s modulo `ranks`, in `zb_v` the
    second half of the stages the other way round."""

    kind: ScheduleKind
    ranks: int = Field(ge=2)
    stages_per_rank: int = Field(default=1, ge=1)


class Passes(Model):
    """How long a stage's passes take: over one microbatch, and what is left for each step.

    inputs_ns, weights_ns: the halves of the backward pass. begin_ns: how long the first forward
    pass waits for parameters. step_ns: at the end, gradients and update.
    """

    forward_ns: Ns
    inputs_ns: Ns
    weights_ns: Ns
    begin_ns: Ns = 0
    step_ns: Ns


class Received(Model):
    """A tensor that a stage gets from the one before in every microbatch.

    bytes: forward, by all links together. backward_ns: of its gradient, on the way back. reduction,
    gradient_reduction: steps of whoever sends, before it does, where what it has is partial.
    """

    tensor: str
    bytes: int
    forward_ns: Ns
    backward_ns: Ns = 0
    reduction: tuple[Step, ...] = ()
    gradient_reduction: tuple[Step, ...] = ()
