"""Observations: what a training job measured of a plan that it carries out."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import InvalidInput
from meshwright.schema.model import Document, Line, Number, Whole
from meshwright.schema.sizes import MAX_SIZE


class Observation(Document):
    """Steps of a training job that runs a plan.

    step_ns: the median of `steps` measured ones, after a warm-up. memory_bytes: the most that a
    device had allocated. stack: the software, as its users call it ("torchtitan 0.3, compiled"):
    observations of one stack correct predictions for it and for no other. job: which one it was.
    """

    prefix: ClassVar[str] = "observation"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = 1
    plan: Line
    step_ns: Number = Field(ge=1, le=MAX_SIZE)
    steps: Whole = Field(default=1, ge=1, le=MAX_SIZE)
    memory_bytes: Whole | None = Field(default=None, gt=0, le=MAX_SIZE)
    stack: Line = ""
    job: Line = ""
    measured_at: Line = ""
