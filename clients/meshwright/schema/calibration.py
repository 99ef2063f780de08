"""Calibrations: how much of a data sheet's promise is kept, and what overlap hides."""

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
    """Shares of peak that an op class reaches.

    host_memory: of a host's memory bandwidth, by the optimizer that runs there.
    """

    matmul: Share
    convolution: Share
    attention: Share
    memory: Share
    # published: ZeRO-Offload (Ren et al., USENIX ATC 2021), table 4: 10^9 parameters in 0.22 s,
    # 28 bytes each, on a DGX-2 with twelve channels of DDR4-2666 (256 GB/s)
    host_memory: Share = 0.5


class Exposed(Model):
    """Share of each kind of traffic's time that computation does not hide."""

    activation: Number = Field(ge=0, le=1)
    parameter: Number = Field(ge=0, le=1)
    gradient: Number = Field(ge=0, le=1)


class Fitted(Model):
    """From which samples a calibration is. spreads: standard deviations of logarithms, by constant.

    median_error: of the samples' times by this calibration, as a share.
    """

    samples: Line
    spreads: dict[str, Number]
    median_error: Number = Field(ge=0)


class Anchored(Model):
    """Which calibration this one is `ratio` times as slow as, by so many measured steps."""

    calibration: Line
    ratio: Number = Field(gt=0)
    observations: Whole = Field(ge=1)
    stack: Line = ""


class Calibration(Document):
    """What `evaluate` multiplies the data sheets with. `source` says where the numbers are from.

    efficiency, link_efficiency, launch_ns: of every shape and message where there are no curves.
    curves: by device; a device that has none takes its nearest relative's, and convolutions and
    hosts the shares. fitted: None where nobody measured kernels. anchored: None where nobody
    measured steps.
    """

    prefix: ClassVar[str] = "cal"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = 1
    name: Line
    source: str
    efficiency: Efficiency
    link_efficiency: Share
    exposed: Exposed
    launch_ns: Whole = Field(ge=0, le=MAX_SIZE)
    curves: tuple[DeviceCurves, ...] = ()
    fitted: Fitted | None = None
    anchored: Anchored | None = None
