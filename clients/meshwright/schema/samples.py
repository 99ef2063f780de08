"""Samples: what kernels and collectives took on devices, as an agent measured them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from meshwright.schema.errors import InvalidInput
from meshwright.schema.model import Document, Line, Model, Number, Whole
from meshwright.schema.sizes import MAX_SIZE
from meshwright.schema.topology import Topology

KernelKind = Literal["matmul", "attention", "memory", "launch"]
CollectiveKind = Literal[
    "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "send"
]
Backend = Literal["nccl", "hccl", "gloo"]
Size = Annotated[Whole, Field(ge=0, le=MAX_SIZE)]
Extent = Annotated[Whole, Field(ge=1, le=MAX_SIZE)]

SIZES: dict[str, int] = {"matmul": 3, "attention": 5, "memory": 1, "launch": 1}  # of a shape


class KernelSample(Model):
    """A kernel on one device: the median over the devices of each device's median.

    Devices much slower than the others are left out, and named in the notes.
    shape: matmul m, n, k; attention batch, heads, sequence, head_dim, causal; memory elements read
    and written; launch the ops in a row. spread_ns: between quartiles of a device's runs. slowest:
    the slowest device's median over `ns`.
    """

    kind: KernelKind
    dtype: Line
    shape: tuple[Size, ...]
    flops: Number = Field(ge=0)
    bytes_moved: Number = Field(ge=0)
    ns: Number = Field(ge=1, le=MAX_SIZE)
    spread_ns: Number = Field(ge=0)
    runs: Whole = Field(ge=1)
    slowest: Number = Field(default=1.0, ge=1)

    @model_validator(mode="after")
    def _valid(self) -> KernelSample:
        if len(self.shape) != SIZES[self.kind]:
            raise InvalidInput(
                f"the shape of a {self.kind} kernel has {SIZES[self.kind]} sizes, got {self.shape}",
                pointer="/shape",
            )
        return self


class CollectiveSample(Model):
    """A collective in groups that cover all devices and run side by side.

    payload_bytes of one device: the gathered tensor (all_gather), the tensor before the reduction,
    the device's part (all_to_all), the message. extents: members along each of the topology's
    levels, slowest first.
    ns: the median run, each run as long as the device took that took longest.
    """

    kind: CollectiveKind
    dtype: Line
    payload_bytes: Size
    extents: tuple[Extent, ...]
    ns: Number = Field(ge=1, le=MAX_SIZE)
    spread_ns: Number = Field(ge=0)
    runs: Whole = Field(ge=1)


class Samples(Document):
    """What an agent measured at one time. topology: what it found, with what it measured in it.

    complete: whether all was measured that was planned. notes: what is odd, a slow device first.
    """

    prefix: ClassVar[str] = "samples"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = 1
    backend: Backend
    topology: Topology
    measured_at: Line
    software: dict[str, Line] = Field(default_factory=dict)
    kernels: tuple[KernelSample, ...] = ()
    collectives: tuple[CollectiveSample, ...] = ()
    complete: bool = True
    notes: tuple[str, ...] = ()
