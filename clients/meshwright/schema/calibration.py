"""Calibrations: the shares of data-sheet performance that are reached, and overlap."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from meshwright.schema.curves import DeviceCurves
from meshwright.schema.errors import InvalidInput
from meshwright.schema.model import Document, Line, Model, Number, Whole
from meshwright.schema.sizes import MAX_SIZE

OpClass = Literal["matmul", "convolution", "attention", "memory", "view"]
Traffic = Literal["activation", "parameter", "gradient"]
Share = Annotated[Number, Field(gt=0, le=1)]


class Efficiency(Model):
    """The share of peak performance that each op class reaches, over 0 and up to 1."""

    matmul: Share = Field(description="The share of peak FLOP/s that matrix products reach.")
    convolution: Share = Field(description="The share of peak FLOP/s that convolutions reach.")
    attention: Share = Field(description="The share of peak FLOP/s that fused attention reaches.")
    memory: Share = Field(
        description="The share of the device's memory bandwidth that memory-bound ops reach."
    )
    # published: ZeRO-Offload (Ren et al., USENIX ATC 2021), table 4: 10^9 parameters in 0.22 s,
    # 28 bytes each, on a DGX-2 with twelve channels of DDR4-2666 (256 GB/s)
    host_memory: Share = Field(
        default=0.5,
        description="The share of the host's memory bandwidth that the optimizer reaches if it "
        "runs on the host.",
    )


class Exposed(Model):
    """The share of each kind of traffic that computation does not hide, 0 to 1."""

    activation: Number = Field(
        ge=0, le=1, description="The exposed share of the time of activation traffic."
    )
    parameter: Number = Field(
        ge=0, le=1, description="The exposed share of the time of parameter traffic."
    )
    gradient: Number = Field(
        ge=0, le=1, description="The exposed share of the time of gradient traffic."
    )
    once: Number | None = Field(
        default=None,
        ge=0,
        le=1,
        description="The exposed share of parameter and gradient traffic that occurs once a step "
        "and not in every microbatch. None: the share of its traffic.",
    )

    @property
    def parameter_once(self) -> float:
        """The exposed share of parameter traffic that occurs once a step."""
        return self.parameter if self.once is None else self.once

    @property
    def gradient_once(self) -> float:
        """The exposed share of gradient traffic that occurs once a step."""
        return self.gradient if self.once is None else self.once


class Fitted(Model):
    """The fit of a calibration to samples."""

    samples: Line = Field(description="The id of the samples.")
    spreads: dict[str, Number] = Field(
        description="The standard deviation of the logarithm of each constant, by the name of the "
        "constant."
    )
    median_error: Number = Field(
        ge=0, description="The median relative error of the samples' predicted times."
    )


class Anchored(Model):
    """The correction of a calibration by measured steps."""

    calibration: Line = Field(description="The id of the calibration before the correction.")
    ratio: Number = Field(
        gt=0,
        description="The factor by which times of this calibration are longer than those of the "
        "calibration before.",
    )
    observations: Whole = Field(ge=1, description="The number of measured steps behind the ratio.")
    stack: Line = Field(
        default="", description="The software stack of the measured job. Empty: any."
    )


class Calibration(Document):
    """A calibration: the measured shares of data-sheet performance that `evaluate` uses.

    Shapes and messages without curves use `efficiency`, `link_efficiency` and `launch_ns`. A device
    without curves uses those of its nearest relative. Convolutions and hosts always use the shares.
    """

    prefix: ClassVar[str] = "cal"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    name: Line = Field(description="The name of the calibration.")
    source: str = Field(description="The source of the numbers.")
    efficiency: Efficiency = Field(description="The shares of peak performance by op class.")
    link_efficiency: Share = Field(
        description="The share of a link's bandwidth that collectives reach."
    )
    exposed: Exposed = Field(
        description="The share of communication that computation does not hide, by traffic."
    )
    launch_ns: Whole = Field(
        ge=0, le=MAX_SIZE, description="The time of one kernel launch, in nanoseconds."
    )
    curves: tuple[DeviceCurves, ...] = Field(
        default=(), description="The performance curves by device."
    )
    fitted: Fitted | None = Field(
        default=None,
        description="The fit to measured kernels and collectives. None if the calibration is not "
        "measured.",
    )
    anchored: Anchored | None = Field(
        default=None,
        description="The correction by measured steps. None if no steps were measured.",
    )
