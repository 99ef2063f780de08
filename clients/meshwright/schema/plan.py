"""Plans: immutable, content-addressed and complete enough to run.

A plan states every choice: the mesh, the strategy of every op, the layouts of every tensor at rest
and as read, the layouts of parameters, gradients and optimizer state, and the collective steps
between them. All of its numbers come from `evaluate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from meshwright.schema.collective_step import CollectiveKind, Step
from meshwright.schema.errors import PlanError
from meshwright.schema.layout import Layout, LayoutPair
from meshwright.schema.mesh import Axis, Mesh
from meshwright.schema.migration import PlanMove
from meshwright.schema.model import Document, Model, Ns, Number
from meshwright.schema.pipeline import Passes, Received, Schedule
from meshwright.schema.recompute import Recomputed
from meshwright.schema.request_options import Wishes
from meshwright.schema.request_patch import RequestPatch
from meshwright.schema.sequence_order import SequenceOrder

Direction = Literal["forward", "backward", "step"]
Resting = Literal["value", "gradient", "optimizer"]
Saved = Literal["none", "rest", "read", "recomputed"]


class Bucket(Model):
    """A bucket: tensors of gradients or parameters whose collectives are fused into one."""

    collective: CollectiveKind = Field(description="The collective.")
    axes: tuple[Axis, ...] = Field(description="The mesh axes of its groups.")
    direction: Direction = Field(
        description="The pass in which the collective runs. `step`: once per step."
    )
    tensors: tuple[str, ...] = Field(
        description="The names of the tensors, in the order in which they become available."
    )
    payload_bytes: int = Field(ge=0, description="The payload of all tensors together, in bytes.")


class OwnStep(Model):
    """A collective inside an op, over the groups of `axes`, in every microbatch."""

    what: Literal[
        "statistics", "candidates", "halo", "ring", "indices", "rows", "receive", "return"
    ] = Field(
        description="The data that moves. `statistics`: reductions that the op uses again (`^`). "
        "`candidates`: the best elements of every shard (top-k). `halo`: the rows that neighbors "
        "need (`~`). `ring`: the shards of inputs that have a follower without its leader "
        "(`t@s?`); the backward pass moves their gradients as well. `indices`: to the devices "
        "that hold their rows (`v@b?`). `rows`: from these devices; the backward pass returns the "
        "gradients. `receive`: a tensor of the previous stage. `return`: the gradient of a tensor "
        "that the next stage received."
    )
    kind: Literal["all_reduce", "all_gather", "send", "all_to_all"] = Field(
        description="The collective."
    )
    axes: tuple[Axis, ...] = Field(description="The mesh axes of its groups.")
    direction: Literal["forward", "backward"] = Field(
        description="The pass in which the collective runs."
    )
    times: int = Field(default=1, ge=1, description="The number of collectives in sequence.")
    again: bool = Field(
        default=False,
        description="Whether the backward pass repeats the collective because the op is "
        "recomputed.",
    )
    payload_bytes: int = Field(
        ge=0, description="The payload of each collective on one device, in bytes."
    )
    ns: Ns = Field(description="The time of all collectives, in nanoseconds.")


class OpPlan(Model):
    """The plan of one op: its strategy and times."""

    naming: ClassVar[tuple[str, ...]] = ("op",)

    op: str = Field(description="The name of the op.")
    kind: str = Field(description="The kind of the op.")
    rule: str | None = Field(
        description="The sharding rule. None if the kind is unknown; the op is then replicated."
    )
    strategy: dict[str, tuple[Axis, ...]] = Field(
        default_factory=dict, description="The mesh axes of each factor of the rule."
    )
    partial: dict[Axis, int] = Field(
        default_factory=dict,
        description="The axes whose partial sums pass through the op, with the position of the "
        "first partial input.",
    )
    followers: tuple[Axis, ...] = Field(
        default=(),
        description="The axes on factors that other factors follow by choice (`t@s?`) and "
        "therefore share.",
    )
    own_steps: tuple[OwnStep, ...] = Field(default=(), description="The collectives inside the op.")
    compute_ns: Ns = Field(
        default=0, description="The compute time in nanoseconds per step, including recomputation."
    )
    communication_ns: Ns = Field(
        default=0, description="The time of `own_steps` in nanoseconds per step."
    )


class TensorPlan(Model):
    """The plan of one activation: its layouts and what is saved of it."""

    naming: ClassVar[tuple[str, ...]] = ("tensor",)

    tensor: str = Field(description="The name of the tensor.")
    rest: LayoutPair = Field(
        description="The layouts in which the producer leaves the value and the gradient."
    )
    read: LayoutPair | None = Field(
        default=None,
        description="The layouts that all readers share before further redistribution. None: as "
        "at rest.",
    )
    saved: Saved = Field(
        default="none",
        description="The version that is kept for the backward pass. `none`: nothing. `rest`: the "
        "tensor at rest. `read`: the tensor as read; it is recomputed if `saved_bytes` is 0. "
        "`recomputed`: the tensor is recomputed at rest and redistributed again.",
    )
    saved_bytes: int = Field(
        default=0, description="The saved activation on a device for one microbatch, in bytes."
    )


class ParameterPlan(Model):
    """The plan of one parameter: layouts of its value, gradient and optimizer state at rest."""

    naming: ClassVar[tuple[str, ...]] = ("tensor",)

    tensor: str = Field(description="The name of the parameter.")
    value: Layout = Field(description="The layout of the value.")
    gradient: Layout | None = Field(
        description="The layout of the accumulated gradient. None if there is no gradient."
    )
    optimizer: Layout | None = Field(
        description="The layout of the optimizer state. None if there is no optimizer state."
    )
    value_bytes: int = Field(description="The value on a device, in bytes.")
    gradient_bytes: int = Field(description="The gradient on a device, in bytes.")
    optimizer_bytes: int = Field(description="The optimizer state on a device, in bytes.")
    on_host: tuple[Resting, ...] = Field(
        default=(),
        description="The states that are offloaded to host memory. Each device has its part in "
        "its share of the host. If the value is offloaded, the lookup of rows runs on the host.",
    )
    host_bytes: int = Field(
        default=0, description="The offloaded state in one device's share of its host, in bytes."
    )
    sparse_gradient: bool = Field(
        default=False,
        description="Whether the gradient consists of ids and rows of the lookup. The optimizer "
        "skips all other rows.",
    )
    owner: dict[Axis, int] = Field(
        default_factory=dict,
        description="The coordinates of the device that stores the owned states, in each group "
        "over these axes.",
    )
    owned: tuple[Resting, ...] = Field(
        default=(),
        description="The states that only the owner stores. The bytes of these states are the "
        "mean over the group.",
    )
    dealt_bytes: int = Field(default=0, description="The owned states on the owner, in bytes.")
    host_ns: Ns = Field(
        default=0, description="The time of work on the host, in nanoseconds per step."
    )
    link_ns: Ns = Field(
        default=0,
        description="The time of transfers to the host and back, in nanoseconds per step.",
    )


class Redistribution(Model):
    """A redistribution: the steps that convert a tensor from one layout to another."""

    naming: ClassVar[tuple[str, ...]] = ("tensor", "op")

    tensor: str = Field(description="The name of the tensor.")
    op: str | None = Field(description="The name of the reader. None: all readers share the steps.")
    input: int | None = Field(
        default=None,
        ge=0,
        description="The position of the input of the reader, from 0. One op may read a tensor "
        "several times in several layouts.",
    )
    traffic: Literal["activation", "parameter", "gradient"] = Field(
        description="The kind of the traffic."
    )
    forward: tuple[Step, ...] = Field(
        default=(), description="The steps in the forward pass of every microbatch."
    )
    backward: tuple[Step, ...] = Field(
        default=(), description="The steps in the backward pass of every microbatch."
    )
    per_step: tuple[Step, ...] = Field(
        default=(),
        description="The steps that run once per step: first the gradient to the optimizer, then "
        "the parameter back.",
    )
    again: bool = Field(
        default=False,
        description="Whether the backward pass repeats the forward steps. The layout before them "
        "is then saved.",
    )
    ns: Ns = Field(default=0, description="The time in nanoseconds per step.")
    counted_ns: Ns = Field(default=0, description="The part of `ns` that the objective includes.")

    @property
    def largest_step_bytes(self) -> int:
        """Buffers of the largest step on one device; steps run one after the other."""
        steps = (*self.forward, *self.backward, *self.per_step)
        return max((step.peak_bytes for step in steps), default=0)


class Padding(Model):
    """A padded dim of a parameter or input, stored with zeros at its end."""

    tensor: str = Field(description="The name of the tensor.")
    dim: int = Field(ge=0, description="The position of the dim, from 0.")
    size: int = Field(ge=1, description="The length of the dim in elements.")
    padded: int = Field(ge=1, description="The stored length of the dim in elements.")


class Moment(Model):
    """The transient memory at one moment on the device with the highest peak, in bytes."""

    at: str = Field(description="The moment, such as `forward of` an op.")
    activations: int = Field(
        default=0, description="The saved activations of all microbatches in flight."
    )
    recomputed: int = Field(
        default=0, description="The activations that are recomputed for the backward pass."
    )
    working: int = Field(
        default=0, description="The values and gradients between ops, and workspaces."
    )
    gathered: int = Field(
        default=0, description="The gathered parameters, and the gradients before their reduction."
    )
    buffers: int = Field(
        default=0, description="The buffers of transfers between neighboring stages."
    )

    @property
    def total(self) -> int:
        transient = self.recomputed + self.working + self.gathered + self.buffers
        return self.activations + transient


class MemoryUse(Model):
    """The memory at the peak of the device with the highest peak, in bytes."""

    parameters: int = Field(default=0, description="The parameters.")
    gradients: int = Field(default=0, description="The gradients.")
    optimizer: int = Field(default=0, description="The optimizer states.")
    activations: int = Field(default=0, description="The saved activations at their maximum.")
    cache: int = Field(default=0, description="The key-value cache of inference.")
    recomputed: int = Field(
        default=0,
        description="The recomputed activations at the peak (`Moment`), less what the peak has "
        "released.",
    )
    working: int = Field(default=0, description="The values and gradients between ops at the peak.")
    gathered: int = Field(
        default=0, description="The gathered parameters and unreduced gradients at the peak."
    )
    buffers: int = Field(
        default=0, description="The buffers of transfers between stages at the peak."
    )
    reserved: int = Field(
        default=0,
        description="The memory that is left free for fragmentation, the framework and its "
        "libraries.",
    )
    capacity: int = Field(default=0, description="The memory of the device.")
    host: int = Field(default=0, description="The memory in the device's share of its host.")
    host_capacity: int = Field(
        default=0, description="The capacity of the device's share of its host."
    )
    moment: str = Field(default="", description="The moment of the peak.")

    @property
    def total(self) -> int:
        rest = self.parameters + self.gradients + self.optimizer + self.cache + self.reserved
        return rest + self.activations + self.passing

    @property
    def passing(self) -> int:
        """The transient memory within a microbatch, in bytes."""
        return self.recomputed + self.working + self.gathered + self.buffers


class Cost(Model):
    """The cost of a plan by `evaluate`: one optimizer step on one device.

    For several pipeline ranks it is the cost of a device of the rank that works longest. The
    traffic `host` is the time of transfers to the host and back, and of work on the host.
    """

    step_ns: Ns = Field(
        description="The time of a step in nanoseconds, with overlap, in closed form: the sum of "
        "`compute_ns`, `exposed_ns` and `bubble_ns`."
    )
    objective_ns: Ns = Field(
        description="The objective that the search minimizes, in nanoseconds. For one stage it is "
        "the compute time plus fixed shares of `communication_ns`. For a pipeline it is the time "
        "of a step."
    )
    compute_ns: Ns = Field(description="The compute time in nanoseconds.")
    bubble_ns: Ns = Field(
        default=0,
        description="The time that a pipeline rank waits for other ranks, in nanoseconds.",
    )
    communication_ns: dict[str, Number] = Field(
        description="The communication time in nanoseconds, by traffic."
    )
    exposed_ns: dict[str, Number] = Field(
        description="The communication time that computation does not hide, in nanoseconds, by "
        "traffic."
    )
    memory_bytes: MemoryUse = Field(description="The memory of the device with the highest peak.")


class Stage(Model):
    """The plan of one pipeline stage."""

    mesh: Mesh = Field(description="The device mesh of the stage.")
    ranks_from: int = Field(default=0, description="The first rank of the mesh.")
    pipeline_rank: int = Field(
        default=0, description="The pipeline rank that runs the stage. Several stages may share it."
    )
    in_flight: int = Field(
        default=1,
        ge=1,
        description="The maximum number of microbatches whose activations are saved at the same "
        "time.",
    )
    receives: tuple[Received, ...] = Field(
        default=(),
        description="The tensors that the stage receives from the previous stage. Their producers "
        "are ops of the kind `receive`.",
    )
    passes: Passes | None = Field(
        default=None, description="The times of the passes. None if the plan has one stage."
    )
    memory_bytes: MemoryUse | None = Field(
        default=None, description="The memory of the stage. None if the plan has one stage."
    )
    moments: tuple[Moment, ...] = Field(
        default=(), description="The moment of peak transient memory in each pass."
    )
    recompute: Recomputed | None = Field(
        default=None, description="The activation recomputation. None: no recomputation."
    )
    uneven: Literal["refuse", "chunk", "pad"] = Field(
        default="refuse",
        description="The handling of sizes that axes do not divide: as the setup allows, or "
        "`refuse` if this is faster.",
    )
    ops: tuple[OpPlan, ...] = Field(description="The plans of the ops, in execution order.")
    tensors: tuple[TensorPlan, ...] = Field(description="The plans of the activations.")
    parameters: tuple[ParameterPlan, ...] = Field(description="The plans of the parameters.")
    redistributions: tuple[Redistribution, ...] = Field(
        description="The redistributions between producers and readers."
    )
    buckets: tuple[Bucket, ...] = Field(
        default=(), description="The fused collectives, as the setup requests."
    )

    @model_validator(mode="after")
    def _check_recompute(self) -> Stage:
        if self.recompute is not None:
            names = {op.op for op in self.ops}
            for op in (op for segment in self.recompute.segments for op in segment.ops):
                if op not in names:
                    raise PlanError(
                        f"a segment of recompute has the op {op!r}, which the stage does not have"
                    )
        return self


class Finding(Model):
    """An improvement: a search found a cheaper plan."""

    search: str = Field(description="The search.")
    mesh: str = Field(description="The mesh of the plan.")
    cost_ns: Number = Field(description="The objective of the plan, in nanoseconds.")


class Considered(Model):
    """A configuration that the search considered."""

    configuration: str = Field(description="The configuration, as text.")
    estimated_ns: Number = Field(description="The estimated objective, in nanoseconds.")
    cost_ns: Number | None = Field(
        default=None,
        description="The objective of its plan, in nanoseconds. None if the configuration was not "
        "planned.",
    )
    memory_bytes: int | None = Field(
        default=None,
        description="The memory of the device with the highest peak, including the reserve, in "
        "bytes. It is that of the plan, an estimate without a plan, or a lower bound if the "
        "configuration does not fit.",
    )
    on_front: bool = Field(
        default=False,
        description="Whether the configuration is on the Pareto front of time and memory.",
    )
    why: str = Field(description="The reason for which the configuration was not chosen.")
    request_patch: RequestPatch | None = Field(
        default=None,
        description=(
            "The change of the plan's request, as a JSON Merge Patch (RFC 7396), with which the "
            "search plans this configuration alone. None where a request cannot state the "
            "configuration, and in plans of earlier versions."
        ),
    )


class Search(Model):
    """The search that found the plan, with its bounds.

    All costs are objectives in nanoseconds. The bounds hold for all plans over the listed meshes.
    """

    found_by: str = Field(description="The search that found this plan.")
    outcome: Literal["optimal", "feasible"] = Field(
        description="`optimal` if the cheapest plan found is proved optimal, otherwise `feasible`."
    )
    cost_ns: Number = Field(description="The objective of the plan.")
    lower_bound_ns: Number = Field(
        description="A lower bound on the objective of every plan over `meshes`."
    )
    gap: Number = Field(
        description="The difference between `cost_ns` and `lower_bound_ns`, relative to `cost_ns`."
    )
    meshes: tuple[str, ...] = Field(description="The meshes that were searched.")
    history: tuple[Finding, ...] = Field(
        default=(), description="The improvements, in the order in which they were found."
    )
    considered: tuple[Considered, ...] = Field(
        default=(),
        description="The other pipeline configurations, best first, including all on the Pareto "
        "front.",
    )
    faster_ns: Number = Field(
        default=0.0,
        description="The objective that this plan adds to the cheapest plan for a shorter step.",
    )
    simplicity_ns: Number = Field(
        default=0.0,
        description="The objective that this plan adds to the cheapest plan for simplicity.",
    )
    step_bound_ns: Number | None = Field(
        default=None,
        description="A lower bound on the step time of every requested pipeline configuration, "
        "planned or not. None if no bound is proved.",
    )


class Plan(Document):
    """A plan: the complete answer to one request."""

    prefix: ClassVar[str] = "plan"
    error: ClassVar[type[PlanError]] = PlanError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    name: str = Field(default="", description="The name of the plan.")
    graph: str = Field(description="The id of the operator graph.")
    topology: str = Field(description="The id of the topology.")
    setup: str = Field(description="The id of the training setup.")
    calibration: str = Field(description="The id of the calibration.")
    wishes: Wishes = Field(default=Wishes(), description="The options of the request.")
    planner_build: str = Field(
        default="",
        max_length=64,
        description="A digest of the planner's sources (`meshwright_solver.planning.build`). "
        "Empty if unknown.",
    )
    microbatches: int = Field(default=1, ge=1, description="The number of microbatches of a step.")
    copies: Literal[1, 2] | None = Field(
        default=None,
        description="The number of microbatches that alternate. None if the setup specifies it.",
    )
    stages: tuple[Stage, ...] = Field(description="The plans of the stages.")
    schedule: Schedule | None = Field(
        default=None, description="The pipeline schedule. None if the plan has one stage."
    )
    cost: Cost = Field(description="The cost of the plan.")
    search: Search = Field(description="The search that found the plan.")
    model_flops: dict[str, Number] = Field(
        default_factory=dict,
        description="The FLOPs of a step by dtype: products, convolutions and attention, forward "
        "and backward, without recomputation and repeated work. Empty if unknown.",
    )
    repeated_work: Number = Field(
        default=0.0,
        ge=0,
        le=1,
        description="The share of arithmetic that devices repeat, 0 to 1. Waiting for longer "
        "chunks is not repeated work.",
    )
    unknown_kinds: tuple[str, ...] = Field(
        default=(), description="The kinds of ops without a sharding rule."
    )
    padding: tuple[Padding, ...] = Field(
        default=(), description="The padded dims of parameters and inputs."
    )
    order: tuple[SequenceOrder, ...] = Field(
        default=(),
        description="The orders in which sequences are loaded to balance causal attention. Empty: "
        "contiguous.",
    )
    move: PlanMove | None = Field(
        default=None,
        description="The migration from the plan that the job ran before. None if there is no "
        "such plan.",
    )
    notes: tuple[str, ...] = Field(default=(), description="Remarks on the plan, in sentences.")

    def _repr_fields(self) -> Iterator[tuple[str, object]]:
        yield "id", self.id
        yield "name", self.name
        yield "devices", max(stage.ranks_from + stage.mesh.device_count for stage in self.stages)
        yield "stages", len(self.stages)
        yield "step_ns", round(self.cost.step_ns)
        yield "memory_bytes", self.cost.memory_bytes.total
        yield "outcome", self.search.outcome

    @property
    def largest_redistribution_bytes(self) -> int:
        """Buffers of the largest redistribution on one device, apart from the peak memory."""
        moved = (moved for stage in self.stages for moved in stage.redistributions)
        return max((redistribution.largest_step_bytes for redistribution in moved), default=0)
