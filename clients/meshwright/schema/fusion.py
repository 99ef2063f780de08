"""Fusion of the collectives of parameters and gradients into buckets."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from meshwright.schema.error_pointer import error_within_field
from meshwright.schema.errors import InvalidInput, SetupError
from meshwright.schema.model import Model, Whole

MAX_BUCKET_MB = 2**20  # chosen: a terabyte is everything at once
MAX_GROUPS = 1000  # chosen
MINDSPORE_MB = 64  # MindSpore's comm_fusion in the mode `auto`


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
        "order in which gradients become available, and values are read. The last bucket has the "
        "rest.",
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

    @model_validator(mode="before")
    @classmethod
    def _profile(cls, value: Any) -> Any:
        """The profile `mindspore`: buckets of 64 MiB for every kind of collective."""
        if not isinstance(value, str):
            return value
        if value != "mindspore":
            raise SetupError(f"fusion: {value[:80]!r} is no profile. Use mindspore or an object")
        return {kind: {"mode": "size", "size_mb": MINDSPORE_MB} for kind in cls.model_fields}

    @property
    def binds_all_reduce(self) -> bool:
        """Whether gradients are all-reduced: their fusion is stated, that of reduce-scatter not."""
        unsaid = CollectiveFusion()
        return self.all_reduce != unsaid and self.reduce_scatter == unsaid
