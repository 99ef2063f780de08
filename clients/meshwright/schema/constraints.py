"""What plans may be, for all ops alike."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictBool, field_validator, model_validator

from meshwright.schema.errors import RequestError
from meshwright.schema.model import Model, Whole
from meshwright.schema.topology import MAX_DEVICES
from meshwright.schema.within import said_where

MAX_ALIGNMENT = 1024  # chosen: MindSpore's limit, more than any unit of matrix products wants
MAX_THRESHOLD_KB = 2**30  # chosen: a terabyte, more than any parameter
MAX_TABLES = 10_000  # chosen: more tables than any model has
Offload = Literal["none", "optimizer", "embeddings", "auto"]


class OptimizerParallel(Model):
    """How finely parameters may lie at rest beyond what their readers need (ZeRO, HSDP, FSDP).

    level: what is sharded of every parameter that data-parallel devices would repeat, as finely as
    its sizes allow. 0 nothing; 1 the optimizer state; 2 the gradient too; 3 the value too, so that
    it is gathered in every pass. None: the search chooses for every parameter.
    shard_size: over so many devices at most; None = over all that would repeat it.
    threshold_kb: parameters of so many KiB or less stay whole.
    gradient_accumulation_shard: whether gradients are summed over microbatches in shards; None = as
    the level says. True at level 1 is level 2.
    whole_parameters: where no dim divides, the optimizer state, and where the level shards
    gradients the gradient too, may lie whole on one device of a group, parameters dealt out so that
    bytes balance.
    """

    level: Literal[0, 1, 2, 3] | None = None
    shard_size: Whole | None = Field(default=None, ge=1, le=MAX_DEVICES)
    threshold_kb: Whole = Field(default=64, ge=0, le=MAX_THRESHOLD_KB)
    gradient_accumulation_shard: StrictBool | None = None
    whole_parameters: StrictBool = False

    @model_validator(mode="after")
    def _valid(self) -> OptimizerParallel:
        level, shards = self.level, self.gradient_accumulation_shard
        if level == 0 and self.shard_size is not None:
            raise RequestError(
                f"optimizer_parallel: level 0 keeps all whole, shard_size: {self.shard_size} says "
                "over how many devices it is in shards; leave one of the two out",
                pointer="/shard_size",
            )
        if (level == 0 and shards) or (level in (2, 3) and shards is False):
            raise RequestError(
                f"optimizer_parallel: level {level} keeps gradients "
                f"{'whole' if level == 0 else 'in shards'}, gradient_accumulation_shard: "
                f"{str(shards).lower()} says otherwise; leave it out, or take level 1",
                pointer="/gradient_accumulation_shard",
            )
        return self


class Constraints(Model):
    """What plans may be, for all ops alike; pins go before.

    fully_use_devices: an op is divided over all devices, or is done whole by every one.
    elementwise_follow: element-wise ops take their first input as it lies, or as another reader
    needs it: no redistribution is made for them.
    slice_alignment: where a matrix product's tensors are cut in their last dim, the parts are
    multiples of so many elements.
    optimizer_parallel: how finely parameters lie at rest; None = the search chooses.
    offload: what may lie and be worked on in the memory of hosts, where the search finds it worth
    it: `optimizer` state, with the update, and gradients that wait for it; `embeddings`, tables
    that one op looks rows up in, with the lookup; `auto`: either.
    sparse_gradients: globs of tables whose gradients may be ids and rows of what was looked up,
    where the search finds it cheaper. The optimizer then leaves rows alone that nobody looked up.
    """

    fully_use_devices: StrictBool = False
    elementwise_follow: StrictBool = False
    slice_alignment: Whole = Field(default=1, ge=1, le=MAX_ALIGNMENT)
    optimizer_parallel: OptimizerParallel | None = None
    offload: Offload = "none"
    sparse_gradients: tuple[str, ...] = Field(default=(), max_length=MAX_TABLES)

    _said_where = field_validator("optimizer_parallel", mode="wrap")(said_where)
