"""Rates: what the devices and links of a topology keep of their data sheets, by a calibration."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from meshwright.schema.errors import InvalidInput
from meshwright.schema.model import Document, Line, Model, Number, Whole


class Passed(Model):
    """What one kind of collective over all units of a level takes, payload by payload.

    bytes_per_s: what passes a device's port over time, which compares with the data sheet.
    """

    kind: Line
    payload_bytes: tuple[Whole, ...]
    ns: tuple[Number, ...]
    bytes_per_s: tuple[Number, ...]


class LevelRates(Model):
    """A level: of one device in one direction, while all its neighbours communicate too.

    promised: as the topology says. kept: of a large gather over all units of the level; None where
    there is one unit alone. start_ns: what the smallest gather takes.
    """

    level: Line
    size: Whole = Field(ge=1)
    link: Line
    promised_bytes_per_s: Number = Field(gt=0)
    promised_latency_ns: Whole = Field(ge=0)
    kept_bytes_per_s: Number | None = Field(default=None, gt=0)
    start_ns: Number | None = Field(default=None, ge=0)
    collectives: tuple[Passed, ...] = ()


class ProductRates(Model):
    """Products of square matrices of a dtype, size by size; kept: of the largest."""

    dtype: Line
    promised_flops_per_s: Number = Field(gt=0)
    kept_flops_per_s: Number = Field(gt=0)
    sizes: tuple[Whole, ...]
    flops_per_s: tuple[Number, ...]


class GroupRates(Model):
    """Devices of one kind. relative: the device whose curves these are, where that is another;
    curves: whether there are any, or shares alone."""

    device: Line
    devices: Whole = Field(ge=1)
    curves: bool
    relative: Line | None = None
    launch_ns: Number = Field(ge=0)
    promised_memory_bytes_per_s: Number = Field(gt=0)
    kept_memory_bytes_per_s: Number = Field(gt=0)
    products: tuple[ProductRates, ...] = ()
    levels: tuple[LevelRates, ...]


class TopologyRates(Document):
    """Of every kind of device. measured: whether the calibration was measured in the topology."""

    prefix: ClassVar[str] = "rates"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    topology: Line
    calibration: Line
    measured: bool = False
    groups: tuple[GroupRates, ...]
