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


class Residuals(Document):
    """By kind of sample, kernels first; none where nobody measured."""

    prefix: ClassVar[str] = "residuals"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = 1
    calibration: Line
    samples: Line | None = None
    residuals: tuple[Residual, ...] = ()
