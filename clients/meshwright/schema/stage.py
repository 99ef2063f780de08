"""Plan of one pipeline stage: strategies, layouts, redistributions and buckets."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from meshwright.schema.collective_step import CollectiveKind, Step
from meshwright.schema.cost import MemoryUse, Moment
from meshwright.schema.errors import PlanError
from meshwright.schema.layout import Layout, LayoutPair
from meshwright.schema.mesh import Axis, Mesh
from meshwright.schema.model import Model, Ns
from meshwright.schema.pipeline import Passes, Received
from meshwright.schema.recompute import Recomputed

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
    def steps_by_direction(self) -> tuple[tuple[Direction, tuple[Step, ...]], ...]:
        """The steps of each pass, and those that run once per step."""
        return ("forward", self.forward), ("backward", self.backward), ("step", self.per_step)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of both passes, and those that run once per step."""
        return (*self.forward, *self.backward, *self.per_step)

    @property
    def largest_step_bytes(self) -> int:
        """Buffers of the largest step on one device; steps run one after the other."""
        return max((step.peak_bytes for step in self.steps), default=0)


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
