"""The key-value cache of inference."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from meshwright.schema.errors import InvalidInput, SetupError
from meshwright.schema.graph import DType
from meshwright.schema.model import Model, Whole


class Cache(Model):
    """The key-value cache: the memory that every sequence of the batch reserves."""

    error: ClassVar[type[InvalidInput]] = SetupError

    context: Whole = Field(
        ge=1,
        description="The number of positions that attention reads, including those of this step. "
        "It equals the sequence length of the graph for the prefill, and is larger for decoding.",
    )
    dtype: DType | None = Field(
        default=None,
        description="The dtype of the cached keys and values. None: the dtype in which the ops "
        "compute them.",
    )
