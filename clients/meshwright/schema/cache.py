"""The cache of keys and values that inference keeps between its steps."""

from __future__ import annotations

from pydantic import Field

from meshwright.schema.graph import DType
from meshwright.schema.model import Model, Whole


class Cache(Model):
    """What every sequence of the batch has room for.

    context: positions that attention reads, those of this step among them: as many as the graph's
    sequence has where a prompt is read, more where tokens are added to it. dtype: of what is kept;
    None = as it is made.
    """

    context: Whole = Field(ge=1)
    dtype: DType | None = None
