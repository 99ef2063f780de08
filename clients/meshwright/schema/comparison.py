"""Comparisons of two plans, in total and op by op. The service computes them on request."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.cost import MemoryUse
from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.mesh import Axis, Mesh
from meshwright.schema.model import Document, Model, Ns, Number

ModulePart = Literal["modules", "optimizer update", "small", "all"]
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
    kind: str = Field(
        default="",
        description="The kind of the part: `compute`, `bubble`, or the traffic that is exposed.",
    )
    ns: Number = Field(
        description="The change in nanoseconds: for each step, or for each sample if the batches "
        "differ."
    )
    until_ns: Number = Field(
        default=0,
        description="The time of the first plan with this change and all changes before it. After "
        "the last change it is the time of the second plan.",
    )


class ModuleCost(Model):
    """The cost of a group of modules on one device; in a pipeline the mean of the ranks.

    Times are for each step, or for each sample if the batches differ.
    """

    compute_ns: Ns = Field(description="The compute time in nanoseconds.")
    communication_ns: Ns = Field(
        description="The communication time in nanoseconds, including what computation hides.",
    )
    parameter_bytes: Number = Field(
        ge=0,
        description="The parameters, their gradients and optimizer states, in bytes.",
    )
    saved_bytes: Number = Field(
        ge=0,
        description="The activations that are saved for the backward pass, of all microbatches in "
        "flight, in bytes.",
    )

    @property
    def ns(self) -> float:
        """The compute and communication time."""
        return self.compute_ns + self.communication_ns

    @property
    def bytes(self) -> float:
        """The parameters with their states, and the saved activations."""
        return self.parameter_bytes + self.saved_bytes


class ModuleChange(Model):
    """The change of a group of modules from the first plan to the second."""

    part: ModulePart = Field(
        description="The group. `optimizer update`: the update of all parameters, which belongs to "
        "no module. `small`: the sum of the small groups. `all`: the sum of all groups.",
    )
    module: str = Field(
        description="A pattern of the names of the modules, with `*` for a number, such as "
        "`model.layers.*.mlp`. Empty: ops outside modules.",
    )
    count: int = Field(ge=0, description="The number of modules; of `small` and `all`, of groups.")
    first: ModuleCost = Field(description="The cost in the first plan.")
    second: ModuleCost = Field(description="The cost in the second plan.")
    ns: Number = Field(description="The change of the compute and communication time.")
    bytes: Number = Field(description="The change of the memory.")
    small: bool = Field(
        default=False,
        description="Whether both changes are below 0.1 % of the totals of the larger plan.",
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
    modules: tuple[ModuleChange, ...] = Field(
        default=(), description="The changes by module, largest change of time first."
    )
    small_modules: ModuleChange | None = Field(
        default=None, description="The sum of the small groups. None if there are none."
    )
    all_modules: ModuleChange | None = Field(
        default=None, description="The sum of `modules`. None in comparisons of earlier versions."
    )
    alike: int = Field(ge=0, description="The number of ops without a difference.")
    differences: tuple[OpDifference, ...] = Field(
        description="The groups of ops that differ, by decreasing difference of time."
    )
