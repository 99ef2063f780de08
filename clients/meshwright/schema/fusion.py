"""How collectives of parameters and gradients are fused: several tensors in one, in buckets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from meshwright.schema.errors import SetupError
from meshwright.schema.model import Model, Whole
from meshwright.schema.within import said_where

MAX_BUCKET_MB = 2**20  # chosen: a terabyte is everything at once
MAX_GROUPS = 1000  # chosen


class CollectiveFusion(Model):
    """One kind of collective.

    mode: `auto` for buckets of 25 MiB (PyTorch's default; MindSpore's is 64 MB); `size` for buckets
    of `size_mb` MiB, 0 for none; `index` for groups that end behind the n-th collective of a step
    for each n of `index`, in the order in which gradients come about, and a last one of the rest.
    """

    mode: Literal["auto", "size", "index"] = "auto"
    size_mb: Whole | None = Field(default=None, ge=0, le=MAX_BUCKET_MB)
    index: tuple[Whole, ...] = Field(default=(), max_length=MAX_GROUPS)

    @model_validator(mode="after")
    def _says_what_its_mode_needs(self) -> CollectiveFusion:
        if (self.mode == "size") != (self.size_mb is not None):
            raise SetupError(
                f"fusion: mode {self.mode!r} with size_mb {self.size_mb}: `size` alone has a size, "
                "and needs it"
            )
        if (self.mode == "index") != bool(self.index):
            raise SetupError(
                f"fusion: mode {self.mode!r} with index {list(self.index)}: `index` alone has "
                "numbers, and needs them"
            )
        if list(self.index) != sorted({n for n in self.index if n > 0}):
            raise SetupError(f"fusion: index {list(self.index)} must be positive and ascending")
        return self


class Fusion(Model):
    """By kind of collective; gradients are all-reduced or reduce-scattered, parameters gathered."""

    all_reduce: CollectiveFusion = CollectiveFusion()
    all_gather: CollectiveFusion = CollectiveFusion()
    reduce_scatter: CollectiveFusion = CollectiveFusion()

    _said_where = field_validator("*", mode="wrap")(said_where)

    @model_validator(mode="after")
    def _numbers_gradients(self) -> Fusion:
        for kind in ("all_gather", "reduce_scatter"):
            if getattr(self, kind).mode == "index":
                raise SetupError(
                    f"fusion: {kind} knows no `index`; all_reduce alone does", pointer=f"/{kind}"
                )
        return self
