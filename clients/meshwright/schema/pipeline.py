"""Pipeline parallelism: stages of a graph on groups of devices, and their schedule.

A *pipeline rank* is a group of devices that runs one stage, or several virtual stages. The names of
schedules are those of Megatron-LM and PyTorch.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from meshwright.schema.collective_step import Step
from meshwright.schema.errors import InvalidInput, RequestError
from meshwright.schema.model import Model, Ns, Whole

MAX_STAGES_PER_RANK = 32  # chosen: more than in any published configuration (NeMo: 20)
MAX_STAGES = 4096  # chosen: more stages than any model has layers
ScheduleKind = Literal["gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_v"]


class Pipeline(Model):
    """The pipeline options of a request. None: the search chooses."""

    error: ClassVar[type[InvalidInput]] = RequestError

    ranks: Whole | None = Field(
        default=None,
        ge=1,
        description="The number of pipeline ranks. 1: no pipeline. None: the search chooses, and "
        "may choose none.",
    )
    stages_per_rank: Whole | None = Field(
        default=None,
        ge=1,
        le=MAX_STAGES_PER_RANK,
        description="The number of virtual stages of a rank: more than one with "
        "`interleaved_1f1b`, two with `zb_v`.",
    )
    schedule: ScheduleKind | None = Field(default=None, description="The pipeline schedule.")
    cuts: tuple[str, ...] = Field(
        default=(), description="The name of the first op of every stage but the first."
    )
    layers: tuple[Annotated[Whole, Field(ge=1)] | None, ...] = Field(
        default=(),
        max_length=MAX_STAGES,
        description="The number of layers of every stage, in order. null: an equal part of the "
        "layers that the others leave. It replaces `cuts`.",
    )

    @model_validator(mode="after")
    def _check(self) -> Pipeline:
        states_stages = self.cuts or self.layers or self.schedule
        if self.ranks == 1 and (states_stages or (self.stages_per_rank or 1) > 1):
            raise RequestError(
                "a pipeline of one rank has no schedule, no cuts and no virtual stages. Request "
                "more ranks, or leave their number to the search",
                pointer="/ranks",
            )
        if self.cuts and self.ranks is not None:
            stages = self.ranks * (self.stages_per_rank or 1)
            if len(self.cuts) != stages - 1:
                raise RequestError(
                    f"{stages} stages need {stages - 1} cuts, got {len(self.cuts)}",
                    pointer="/cuts",
                )
        if self.layers:
            self._check_layers()
        return self

    def _check_layers(self) -> None:
        if self.cuts:
            raise RequestError(
                "cuts and layers of stages state the same. Leave one of the two out",
                pointer="/layers",
            )
        if self.ranks is None:
            raise RequestError(
                f"the layers of {len(self.layers)} stages need a number of pipeline ranks",
                pointer="/ranks",
            )
        stages = self.ranks * (self.stages_per_rank or 1)
        if len(self.layers) != stages:
            raise RequestError(
                f"{stages} stages need {stages} numbers of layers, got {len(self.layers)}",
                pointer="/layers",
            )


NO_PIPELINE = Pipeline(ranks=1)


class Schedule(Model):
    """A pipeline schedule: the order of the passes of all stages.

    Stage s runs on rank s modulo `ranks`. In `zb_v` the second half of the stages is reversed.
    """

    kind: ScheduleKind = Field(
        description="The name of the schedule, as in Megatron-LM and PyTorch."
    )
    ranks: int = Field(ge=2, description="The number of pipeline ranks.")
    stages_per_rank: int = Field(
        default=1, ge=1, description="The number of virtual stages of a rank."
    )


class Passes(Model):
    """The times of a stage's passes, in nanoseconds."""

    forward_ns: Ns = Field(description="The forward pass of a microbatch.")
    inputs_ns: Ns = Field(
        description="The backward pass of a microbatch for the gradients of inputs."
    )
    weights_ns: Ns = Field(
        description="The backward pass of a microbatch for the gradients of weights."
    )
    begin_ns: Ns = Field(
        default=0, description="The wait of the first forward pass for parameters."
    )
    step_ns: Ns = Field(
        description="The reduction of gradients and the optimizer update at the end of the step."
    )


class Received(Model):
    """A tensor that a stage receives from the previous stage in every microbatch."""

    tensor: str = Field(description="The name of the tensor.")
    bytes: int = Field(description="The size of the forward transfer over all links, in bytes.")
    forward_ns: Ns = Field(description="The time of the forward transfer, in nanoseconds.")
    backward_ns: Ns = Field(
        default=0, description="The time of the transfer of the gradient, in nanoseconds."
    )
    reduction: tuple[Step, ...] = Field(
        default=(),
        description="The steps of the sender before the forward transfer, if the value is partial.",
    )
    gradient_reduction: tuple[Step, ...] = Field(
        default=(),
        description="The steps of the sender before the transfer of the gradient, if the gradient "
        "is partial.",
    )
