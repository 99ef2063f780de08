"""Residuals: what a calibration says of the samples that it was fitted to, over what they took."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import InvalidInput
from meshwright.schema.model import Document, Line, Model, Number, Whole


class Residual(Model):
    """Predicted over measured time of the samples of one kind.

    low, high: the quartiles. worst: the ratio farthest from 1, of the sample `worst_of`.
    """

    kind: Line
    samples: Whole = Field(ge=1)
    median: Number = Field(gt=0)
    low: Number = Field(gt=0)
    high: Number = Field(gt=0)
    worst: Number = Field(gt=0)
    worst_of: Line


class Sampled(Model):
    """A sample and what is said of it. series: its dtype, or the extents of its groups.

    size: operations of products and attention, bytes otherwise; of launches how many in a row.
    measured_per_s, predicted_per_s: size over time.
    """

    kind: Line
    series: Line
    name: Line
    size: Number = Field(ge=0)
    measured_ns: Number = Field(gt=0)
    spread_ns: Number = Field(ge=0)
    predicted_ns: Number = Field(gt=0)
    measured_per_s: Number = Field(ge=0)
    predicted_per_s: Number = Field(ge=0)
    ratio: Number = Field(gt=0)


class Residuals(Document):
    """By kind of sample, kernels first, and one by one; none where nobody measured.

    topology: in which they were measured.
    """

    prefix: ClassVar[str] = "residuals"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = 1
    calibration: Line
    samples: Line | None = None
    topology: Line | None = None
    residuals: tuple[Residual, ...] = ()
    sampled: tuple[Sampled, ...] = ()
