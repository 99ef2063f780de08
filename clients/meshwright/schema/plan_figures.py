"""Figures of a plan: the numbers by which plans of different clusters and batches are compared."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from meshwright.schema.model import Model, Number


class PlanFigures(Model):
    """The throughput, the memory and the parallel degrees of a plan."""

    plan: str = Field(description="The id of the plan.")
    outcome: Literal["optimal", "feasible"] = Field(description="The outcome of the search.")
    gap: Number = Field(description="The gap of the search, 0 to 1.")
    step_ns: Number = Field(description="The predicted time of a step, in nanoseconds.")
    step_interval_ns: tuple[Number, Number] | None = Field(
        default=None,
        description="The interval in which 80 % of published steps lie around their prediction, "
        "in nanoseconds. None if it is unknown.",
    )
    devices: int = Field(description="The number of devices that the plan uses.")
    batch: int | None = Field(
        default=None, description="The samples of a step. None if the graph has no batch."
    )
    sequence: int | None = Field(
        default=None, description="The tokens of a sample. None if the graph has no sequences."
    )
    samples_per_s: Number | None = Field(default=None, description="Samples per second.")
    tokens_per_s: Number | None = Field(default=None, description="Tokens per second.")
    utilization: Number | None = Field(
        default=None, description="The model FLOPs utilization (MFU), 0 to 1."
    )
    memory_bytes: int = Field(
        description="The peak memory of a device with the reserve, in bytes: the highest of all."
    )
    capacity_bytes: int = Field(description="The memory of that device, in bytes.")
    microbatches: int = Field(description="The number of microbatches of a step.")
    degrees: str = Field(
        description="The parallel degrees of most of the arithmetic, such as `dp 8 · tp 4 · pp 2`."
    )
    differing: int = Field(
        default=0, description="The number of ops and parameters that differ from the degrees."
    )
    recompute: str = Field(default="none", description="The recomputation policy.")

    @property
    def fits(self) -> bool:
        """Whether the peak memory is at most the memory of the device."""
        return self.memory_bytes <= self.capacity_bytes

    @property
    def headroom(self) -> float:
        """The share of the device memory that is free beyond the reserve; negative: it lacks."""
        return 1 - self.memory_bytes / self.capacity_bytes if self.capacity_bytes else 0.0

    @property
    def units_per_s(self) -> float | None:
        """Tokens per second; samples per second where the graph has no sequences."""
        return self.samples_per_s if self.tokens_per_s is None else self.tokens_per_s

    @property
    def device_rate(self) -> float | None:
        """The throughput of one device, in the unit of `units_per_s`."""
        return None if self.units_per_s is None else self.units_per_s / self.devices
