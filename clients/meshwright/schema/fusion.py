"""Fusion of the collectives of parameters and gradients into buckets."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from meshwright.schema.error_pointer import error_within_field
from meshwright.schema.errors import InvalidInput, SetupError
from meshwright.schema.model import Model, Whole

MAX_BUCKET_MB = 2**20  # chosen: a terabyte is everything at once
MAX_GROUPS = 1000  # chosen


class CollectiveFusion(Model):
    """The fusion of one kind of collective into buckets."""

    error: ClassVar[type[InvalidInput]] = SetupError

    mode: Literal["auto", "size", "index"] = Field(
        default="auto",
        description="`auto`: buckets of 25 MiB, the default of PyTorch. `size`: buckets of "
        "`size_mb` MiB. `index`: buckets that end at the collectives in `index`.",
    )
    size_mb: Whole | None = Field(
        default=None,
        ge=0,
        le=MAX_BUCKET_MB,
        description="The size of a bucket in MiB in the mode `size`. 0: no fusion.",
    )
    index: tuple[Whole, ...] = Field(
        default=(),
        max_length=MAX_GROUPS,
        description="The numbers of the collectives that end a bucket in the mode `index`, in the "
        "order in which gradients become available. The last bucket has the rest.",
    )

    @model_validator(mode="after")
    def _check_mode(self) -> CollectiveFusion:
        if (self.mode == "size") != (self.size_mb is not None):
            raise SetupError(
                f"fusion: mode {self.mode!r} with size_mb {self.size_mb}. Give `size_mb` with mode "
                "`size` only"
            )
        if (self.mode == "index") != bool(self.index):
            raise SetupError(
                f"fusion: mode {self.mode!r} with index {list(self.index)}. Give `index` with mode "
                "`index` only"
            )
        if list(self.index) != sorted({n for n in self.index if n > 0}):
            raise SetupError(f"fusion: index {list(self.index)} must be positive and ascending")
        return self


class Fusion(Model):
    """The fusion of the collectives of parameters and gradients, by kind."""

    error: ClassVar[type[InvalidInput]] = SetupError

    all_reduce: CollectiveFusion = Field(
        default=CollectiveFusion(), description="The fusion of all-reduces of gradients."
    )
    all_gather: CollectiveFusion = Field(
        default=CollectiveFusion(), description="The fusion of all-gathers of parameters."
    )
    reduce_scatter: CollectiveFusion = Field(
        default=CollectiveFusion(), description="The fusion of reduce-scatters of gradients."
    )

    _pointer = field_validator("*", mode="wrap")(error_within_field)

    @model_validator(mode="after")
    def _check_index(self) -> Fusion:
        for kind in ("all_gather", "reduce_scatter"):
            if getattr(self, kind).mode == "index":
                raise SetupError(
                    f"fusion: {kind} has no mode `index`. Use it for all_reduce only",
                    pointer=f"/{kind}",
                )
        return self
