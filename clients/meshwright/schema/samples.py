"""Samples: times of kernels and collectives that an agent measured."""

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

SIZES: dict[str, int] = {"matmul": 3, "attention": 5, "memory": 1, "launch": 1}  # sizes in a shape


class KernelSample(Model):
    """A measured kernel: the median over devices of the median over runs.

    Devices that are much slower than the others are excluded and named in the notes.
    """

    kind: KernelKind = Field(description="The kind of the kernel.")
    dtype: Line = Field(description="The dtype of the kernel.")
    shape: tuple[Size, ...] = Field(
        description="The sizes of the kernel. matmul: m, n, k. attention: batch, heads, sequence, "
        "head_dim, causal. memory: elements read and written. launch: the number of consecutive "
        "ops."
    )
    flops: Number = Field(ge=0, description="The arithmetic of the kernel in FLOP.")
    bytes_moved: Number = Field(ge=0, description="The memory traffic of the kernel in bytes.")
    ns: Number = Field(ge=1, le=MAX_SIZE, description="The time in nanoseconds.")
    spread_ns: Number = Field(
        ge=0, description="The spread between quartiles of a device's runs, in nanoseconds."
    )
    runs: Whole = Field(ge=1, description="The number of runs.")
    slowest: Number = Field(
        default=1.0, ge=1, description="The median of the slowest device over `ns`."
    )

    @model_validator(mode="after")
    def _check(self) -> KernelSample:
        if len(self.shape) != SIZES[self.kind]:
            raise InvalidInput(
                f"the shape of a {self.kind} kernel has {SIZES[self.kind]} sizes, got {self.shape}",
                pointer="/shape",
            )
        return self


class CollectiveSample(Model):
    """A measured collective in groups that cover all devices and run at the same time."""

    kind: CollectiveKind = Field(description="The kind of the collective.")
    dtype: Line = Field(description="The dtype of the elements.")
    payload_bytes: Size = Field(
        description="The payload of one device in bytes: the gathered tensor (all_gather), the "
        "tensor before the reduction, the device's part (all_to_all), or the message."
    )
    extents: tuple[Extent, ...] = Field(
        description="The number of group members along each level of the topology, slowest first."
    )
    ns: Number = Field(
        ge=1,
        le=MAX_SIZE,
        description="The time of the median run on the slowest device, in nanoseconds.",
    )
    spread_ns: Number = Field(
        ge=0, description="The spread between quartiles of the runs, in nanoseconds."
    )
    runs: Whole = Field(ge=1, description="The number of runs.")


class Samples(Document):
    """The samples of one measurement by an agent."""

    prefix: ClassVar[str] = "samples"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    backend: Backend = Field(description="The communication library.")
    topology: Topology = Field(
        description="The topology that the agent detected, with its measured bandwidths."
    )
    measured_at: Line = Field(description="The time of the measurement.")
    software: dict[str, Line] = Field(
        default_factory=dict, description="The versions of the software, by name."
    )
    kernels: tuple[KernelSample, ...] = Field(default=(), description="The measured kernels.")
    collectives: tuple[CollectiveSample, ...] = Field(
        default=(), description="The measured collectives."
    )
    complete: bool = Field(
        default=True, description="Whether the measurement covers everything that was planned."
    )
    notes: tuple[str, ...] = Field(
        default=(), description="Anomalies of the measurement, slow devices first."
    )
