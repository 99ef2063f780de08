"""Residuals: predicted over measured times of the samples to which a calibration is fitted."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import InvalidInput
from meshwright.schema.model import Document, Line, Model, Number, Whole


class Residual(Model):
    """The ratios of predicted to measured time of the samples of one kind."""

    kind: Line = Field(description="The kind of the samples.")
    samples: Whole = Field(ge=1, description="The number of samples.")
    median: Number = Field(gt=0, description="The median ratio.")
    low: Number = Field(gt=0, description="The first quartile of the ratios.")
    high: Number = Field(gt=0, description="The third quartile of the ratios.")
    worst: Number = Field(gt=0, description="The ratio farthest from 1.")
    worst_of: Line = Field(description="The name of the sample with this ratio.")


class Sampled(Model):
    """A sample with its predicted time."""

    kind: Line = Field(description="The kind of the sample.")
    series: Line = Field(
        description="The dtype of a kernel, or the extents of the groups of a collective."
    )
    name: Line = Field(description="The name of the sample.")
    size: Number = Field(
        ge=0,
        description="The size of the sample: FLOP of matrix products and attention, consecutive "
        "launches of a launch sample, otherwise bytes.",
    )
    measured_ns: Number = Field(gt=0, description="The measured time in nanoseconds.")
    spread_ns: Number = Field(
        ge=0, description="The spread between quartiles of the runs, in nanoseconds."
    )
    predicted_ns: Number = Field(gt=0, description="The predicted time in nanoseconds.")
    measured_per_s: Number = Field(ge=0, description="The measured rate: size per second.")
    predicted_per_s: Number = Field(ge=0, description="The predicted rate: size per second.")
    ratio: Number = Field(gt=0, description="The predicted time over the measured time.")


class Residuals(Document):
    """The residuals of a calibration: its predictions for the samples to which it is fitted.

    A calibration without samples has no residuals.
    """

    prefix: ClassVar[str] = "residuals"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    calibration: Line = Field(description="The id of the calibration.")
    samples: Line | None = Field(default=None, description="The id of the samples.")
    topology: Line | None = Field(
        default=None, description="The id of the topology of the measurement."
    )
    residuals: tuple[Residual, ...] = Field(
        default=(), description="The ratios by kind of sample, kernels first."
    )
    sampled: tuple[Sampled, ...] = Field(default=(), description="The samples.")
