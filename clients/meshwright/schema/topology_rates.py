"""Rates: predicted rates of devices and links of a topology, compared with their data sheets."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from meshwright.schema.errors import InvalidInput
from meshwright.schema.model import Document, Line, Model, Number, Whole


class Passed(Model):
    """The predicted times of one kind of collective over all units of a level, by payload."""

    kind: Line = Field(description="The kind of the collective.")
    payload_bytes: tuple[Whole, ...] = Field(description="The payloads in bytes.")
    ns: tuple[Number, ...] = Field(description="The time for each payload, in nanoseconds.")
    bytes_per_s: tuple[Number, ...] = Field(
        description="The rate at a device's port for each payload, in bytes per second, "
        "comparable with the data sheet."
    )


class LevelRates(Model):
    """The rates of a level, for one device in one direction while all others communicate."""

    level: Line = Field(description="The name of the level.")
    size: Whole = Field(ge=1, description="The number of units.")
    link: Line = Field(description="The kind of the link.")
    promised_bytes_per_s: Number = Field(
        gt=0, description="The bandwidth in the topology, in bytes per second."
    )
    promised_latency_ns: Whole = Field(
        ge=0, description="The latency in the topology, in nanoseconds."
    )
    kept_bytes_per_s: Number | None = Field(
        default=None,
        gt=0,
        description="The predicted bandwidth of a large all-gather over all units, in bytes per "
        "second. None if the level has one unit.",
    )
    start_ns: Number | None = Field(
        default=None,
        ge=0,
        description="The predicted time of the smallest all-gather, in nanoseconds. None if the "
        "level has one unit.",
    )
    collectives: tuple[Passed, ...] = Field(
        default=(), description="The predicted times by kind of collective."
    )


class ProductRates(Model):
    """The rates of products of square matrices of one dtype."""

    dtype: Line = Field(description="The dtype.")
    promised_flops_per_s: Number = Field(gt=0, description="The peak in the topology, in FLOP/s.")
    kept_flops_per_s: Number = Field(
        gt=0, description="The predicted rate of the largest product, in FLOP/s."
    )
    sizes: tuple[Whole, ...] = Field(description="The numbers of rows.")
    flops_per_s: tuple[Number, ...] = Field(
        description="The predicted rate for each size, in FLOP/s."
    )


class GroupRates(Model):
    """The rates of a group of equal devices."""

    device: Line = Field(description="The name of the device.")
    devices: Whole = Field(ge=1, description="The number of devices.")
    curves: bool = Field(
        description="Whether the calibration has curves for the device, or shares only."
    )
    relative: Line | None = Field(
        default=None, description="The device whose curves are used, if it is another device."
    )
    launch_ns: Number = Field(ge=0, description="The time of one kernel launch, in nanoseconds.")
    promised_memory_bytes_per_s: Number = Field(
        gt=0, description="The memory bandwidth in the topology, in bytes per second."
    )
    kept_memory_bytes_per_s: Number = Field(
        gt=0, description="The predicted memory bandwidth, in bytes per second."
    )
    products: tuple[ProductRates, ...] = Field(
        default=(), description="The rates of matrix products by dtype."
    )
    levels: tuple[LevelRates, ...] = Field(description="The rates of the levels, slowest first.")


class TopologyRates(Document):
    """The predicted rates of a topology under a calibration."""

    prefix: ClassVar[str] = "rates"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    topology: Line = Field(description="The id of the topology.")
    calibration: Line = Field(description="The id of the calibration.")
    measured: bool = Field(
        default=False,
        description="Whether the calibration is fitted to samples of the topology. A correction "
        "by measured steps does not count.",
    )
    groups: tuple[GroupRates, ...] = Field(description="The rates of each group of devices.")
