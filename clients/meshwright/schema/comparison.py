"""Comparisons of two plans, in total and op by op. The service computes them on request."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.cost import MemoryUse
from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.mesh import Axis, Mesh
from meshwright.schema.model import Document, Model, Ns, Number

Differing = Literal["only in one", "stage", "strategy", "layout", "cost"]


class PlanTotals(Model):
    """The totals of a plan. Times are those of `Cost`, in nanoseconds per step."""

    plan: str = Field(description="The id of the plan.")
    name: str = Field(description="The name of the plan.")
    graph: str = Field(description="The id of the operator graph.")
    topology: str = Field(description="The id of the topology.")
    setup: str = Field(description="The id of the training setup.")
    calibration: str = Field(description="The id of the calibration.")
    meshes: tuple[Mesh, ...] = Field(description="The meshes of the stages.")
    microbatches: int = Field(description="The number of microbatches of a step.")
    schedule: str | None = Field(
        description="The pipeline schedule. None if the plan has one stage."
    )
    recompute: tuple[str, ...] = Field(
        description="The policies of activation recomputation in the stages."
    )
    step_ns: Ns = Field(description="The time of a step.")
    objective_ns: Ns = Field(description="The objective that the search minimized.")
    compute_ns: Ns = Field(description="The compute time.")
    bubble_ns: Ns = Field(description="The time that a pipeline rank waits for other ranks.")
    communication_ns: dict[str, float] = Field(description="The communication time by traffic.")
    exposed_ns: dict[str, float] = Field(
        description="The communication time that computation does not hide, by traffic."
    )
    memory_bytes: MemoryUse = Field(
        description="The memory of the device with the highest peak, in bytes."
    )
    memory_total_bytes: int = Field(description="The peak memory of that device, in bytes.")
    ops: int = Field(description="The number of ops.")
    batch: int | None = Field(
        default=None, description="The samples of a step. None if they are unknown."
    )


class RequestDifference(Model):
    """An option in which the requests of the plans differ, with its values as text."""

    option: str = Field(description="The option, such as `pins` or `setup global_batch`.")
    first: str = Field(description="The value in the request of the first plan.")
    second: str = Field(description="The value in the request of the second plan.")


class StepChange(Model):
    """The change of a part of the step from the first plan to the second."""

    part: str = Field(description="The part, such as `compute` or `waits for gradients`.")
    ns: Number = Field(
        description="The change in nanoseconds: for each step, or for each sample if the batches "
        "differ."
    )


class ComparedOps(Model):
    """A group of ops of one plan. Times and bytes are sums over the group."""

    stages: tuple[int, ...] = Field(description="The numbers of the stages that have the ops.")
    strategy: dict[str, tuple[Axis, ...]] = Field(
        description="The mesh axes of each factor of the rule."
    )
    partial: dict[Axis, int] = Field(
        default_factory=dict,
        description="The axes whose partial sums pass through the op, with the position of the "
        "first partial input.",
    )
    followers: tuple[Axis, ...] = Field(
        default=(), description="The axes on factors that other factors follow."
    )
    outputs: tuple[str, ...] = Field(description="The layouts of the outputs, as text.")
    compute_ns: Ns = Field(description="The compute time in nanoseconds per step.")
    communication_ns: Ns = Field(description="The communication time in nanoseconds per step.")
    saved_bytes: int = Field(
        description="The activations saved on a device for the backward pass, in bytes."
    )
    parameter_bytes: int = Field(description="The parameters on a device, in bytes.")


class OpDifference(Model):
    """A group of ops that differ between the plans in the same way."""

    label: str = Field(description="A pattern of the names of the ops.")
    count: int = Field(ge=1, description="The number of ops.")
    kind: str = Field(description="The kind of the ops.")
    differing: tuple[Differing, ...] = Field(description="The properties that differ.")
    first: ComparedOps | None = Field(
        description="The ops in the first plan. None if it has no such ops."
    )
    second: ComparedOps | None = Field(
        description="The ops in the second plan. None if it has no such ops."
    )


class Comparison(Document):
    """A comparison of two plans."""

    prefix: ClassVar[str] = "cmp"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    first: PlanTotals = Field(description="The totals of the first plan.")
    second: PlanTotals = Field(description="The totals of the second plan.")
    second_shorter: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="The probability that the step of the second plan is the shorter one. None if "
        "the plans are priced by different calibrations, or do the same.",
    )
    requested: tuple[RequestDifference, ...] = Field(
        default=(), description="The options in which the requests differ."
    )
    per_sample: bool = Field(
        default=False,
        description="Whether the batches differ, so that times for each sample are compared.",
    )
    changes: tuple[StepChange, ...] = Field(
        default=(), description="The changes of the parts of the step, largest first."
    )
    alike: int = Field(ge=0, description="The number of ops without a difference.")
    differences: tuple[OpDifference, ...] = Field(
        description="The groups of ops that differ, by decreasing difference of time."
    )
