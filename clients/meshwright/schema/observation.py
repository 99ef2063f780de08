"""Observations: measured steps of training jobs that run plans."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import InvalidInput
from meshwright.schema.model import Document, Line, Number, Whole
from meshwright.schema.sizes import MAX_SIZE


class Observation(Document):
    """An observation: measured steps of a training job that runs a plan."""

    prefix: ClassVar[str] = "observation"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    plan: Line = Field(description="The id of the plan.")
    step_ns: Number = Field(
        ge=1,
        le=MAX_SIZE,
        description="The median time of the measured steps after a warm-up, in nanoseconds.",
    )
    steps: Whole = Field(default=1, ge=1, le=MAX_SIZE, description="The number of measured steps.")
    memory_bytes: Whole | None = Field(
        default=None,
        gt=0,
        le=MAX_SIZE,
        description="The peak memory that a device allocated, in bytes.",
    )
    stack: Line = Field(
        default="",
        description="The software stack, such as `torchtitan 0.3, compiled`. Observations correct "
        "the predictions for their own stack only.",
    )
    job: Line = Field(default="", description="The name of the training job.")
    measured_at: Line = Field(default="", description="The time of the measurement.")
