"""Constraints on plans that apply to all ops."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, StrictBool, field_validator, model_validator

from meshwright.schema.error_pointer import error_within_field
from meshwright.schema.errors import InvalidInput, RequestError
from meshwright.schema.model import Model, Whole
from meshwright.schema.topology import MAX_DEVICES

MAX_ALIGNMENT = 1024  # chosen: MindSpore's limit, more than any matrix unit needs
MAX_THRESHOLD_KB = 2**30  # chosen: a terabyte, more than any parameter
MAX_TABLES = 10_000  # chosen: more tables than any model has
MAX_GLOBS = 1_000  # chosen: modules of a model, named one by one
Offload = Literal["none", "optimizer", "embeddings", "auto"]


class OptimizerParallel(Model):
    """Optimizer parallelism (ZeRO, HSDP, FSDP): sharding of parameters at rest."""

    error: ClassVar[type[InvalidInput]] = RequestError

    level: Literal[0, 1, 2, 3] | None = Field(
        default=None,
        description="The ZeRO stage: the state that data-parallel devices shard as finely as its "
        "sizes allow. 0: none. 1: the optimizer state. 2: the gradient as well. 3: the value as "
        "well, gathered in every pass. None: the search chooses for each parameter.",
    )
    shard_size: Whole | None = Field(
        default=None,
        ge=1,
        le=MAX_DEVICES,
        description="The maximum number of devices over which a parameter is sharded. None: all "
        "devices that would replicate it.",
    )
    threshold_kb: Whole = Field(
        default=64,
        ge=0,
        le=MAX_THRESHOLD_KB,
        description="The size in KiB up to which parameters are not sharded.",
    )
    gradient_accumulation_shard: StrictBool | None = Field(
        default=None,
        description="Whether gradients are accumulated over microbatches in shards. None: as "
        "`level` says. True at level 1 is level 2.",
    )
    whole_parameters: StrictBool = Field(
        default=False,
        description="Whether a state that no dim can shard may be stored whole on one device of a "
        "group. It applies to the optimizer state, and to the gradient if the level shards "
        "gradients. Parameters are assigned to devices so that bytes balance.",
    )
    unsharded: tuple[str, ...] = Field(
        default=(),
        max_length=MAX_GLOBS,
        description="Globs of the parameters whose value, gradient and optimizer state are not "
        "sharded over data-parallel devices, as with MindSpore's `parallel_optimizer=False` of a "
        "parameter.",
    )

    @model_validator(mode="after")
    def _check(self) -> OptimizerParallel:
        level, shards = self.level, self.gradient_accumulation_shard
        if level == 0 and self.shard_size is not None:
            raise RequestError(
                f"optimizer_parallel: level 0 shards nothing, but shard_size is {self.shard_size}. "
                "Leave one of the two out",
                pointer="/shard_size",
            )
        if (level == 0 and shards) or (level in (2, 3) and shards is False):
            raise RequestError(
                f"optimizer_parallel: level {level} "
                f"{'replicates' if level == 0 else 'shards'} gradients, but "
                f"gradient_accumulation_shard is {str(shards).lower()}. Leave it out, or use "
                "level 1",
                pointer="/gradient_accumulation_shard",
            )
        return self


class Constraints(Model):
    """Constraints on all plans of a request. Pins have precedence."""

    error: ClassVar[type[InvalidInput]] = RequestError

    fully_use_devices: StrictBool = Field(
        default=False,
        description="Whether every op must be either sharded over all devices or fully replicated.",
    )
    elementwise_follow: StrictBool = Field(
        default=False,
        description="Whether element-wise ops must take their first input in a layout that it "
        "already has, so that no redistribution is added for them.",
    )
    slice_alignment: Whole = Field(
        default=1,
        ge=1,
        le=MAX_ALIGNMENT,
        description="The number of elements of which every shard of the last dim of a matrix "
        "product's tensors must be a multiple.",
    )
    optimizer_parallel: OptimizerParallel | None = Field(
        default=None, description="The sharding of parameters at rest. None: the search chooses."
    )
    offload: Offload = Field(
        default="none",
        description="The state that the search may offload to host memory if this is faster. "
        "`optimizer`: the optimizer state with the update and the gradients. `embeddings`: tables "
        "that one op looks up, with the lookup. `auto`: both.",
    )
    sparse_gradients: tuple[str, ...] = Field(
        default=(),
        max_length=MAX_TABLES,
        description="Globs of the embedding tables that may have sparse gradients, as ids and "
        "rows, if this is faster. The optimizer then skips rows without a lookup.",
    )

    _pointer = field_validator("optimizer_parallel", mode="wrap")(error_within_field)
