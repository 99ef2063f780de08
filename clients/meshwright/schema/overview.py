"""Overviews of plans, without their ops. The service computes them on request."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.cost import Cost
from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.mesh import Axis, Mesh
from meshwright.schema.model import Document, Model, Ns
from meshwright.schema.parallel_shares import ParallelShare
from meshwright.schema.pipeline import Passes, Schedule
from meshwright.schema.plan import Padding
from meshwright.schema.request_options import Wishes
from meshwright.schema.search_record import Search
from meshwright.schema.setup import Setup
from meshwright.schema.uniform_degrees import Role, Uniform


class StageOverview(Model):
    """An overview of a stage, without its ops."""

    stage: int = Field(description="The number of the stage, from 0.")
    pipeline_rank: int = Field(description="The pipeline rank that runs the stage.")
    first_rank: int = Field(description="The first rank of the mesh.")
    devices: int = Field(description="The number of devices of the mesh.")
    mesh: Mesh = Field(description="The mesh of the stage.")
    roles: dict[Axis, Role] = Field(
        default_factory=dict,
        description="The parallel degree that most of the work on an axis belongs to.",
    )
    ops: int = Field(description="The number of ops.")
    first: str = Field(description="The first op that no other stage has.")
    last: str = Field(description="The last op that no other stage has.")
    in_flight: int = Field(
        description="The number of microbatches whose activations are saved at the same time."
    )
    passes: Passes | None = Field(
        default=None, description="The times of the passes. None if the plan has one stage."
    )
    received_bytes: int = Field(
        default=0,
        description="The activations received per microbatch in the forward pass, in bytes.",
    )
    received_ns: Ns = Field(
        default=0, description="The time to receive these activations, in nanoseconds."
    )
    recompute: str | None = Field(
        default=None, description="The policy of activation recomputation. None: no recomputation."
    )
    again: int = Field(
        default=0, description="The number of ops that are recomputed in the backward pass."
    )
    uneven: Literal["refuse", "chunk", "pad"] = Field(
        default="refuse", description="The handling of sizes that axes do not divide."
    )
    memory_bytes: int = Field(description="The peak memory of a device, in bytes.")
    capacity_bytes: int = Field(description="The memory of a device, in bytes.")


class KindTime(Model):
    """The time of all ops of a kind, over all pipeline ranks."""

    kind: str = Field(description="The kind of the ops.")
    compute_ns: Ns = Field(description="Their compute time per step, in nanoseconds.")
    communication_ns: Ns = Field(
        description="The time of the collectives inside them per step, in nanoseconds."
    )
    replicated_ns: Ns = Field(
        default=0,
        description="The compute time of those that run whole on every device of their stage, in "
        "nanoseconds.",
    )
    share: float = Field(description="The share of both times in that of all ops, 0 to 1.")


class PlanWarning(Model):
    """A sign that a faster plan, another request or a repair of the model exists."""

    code: Literal[
        "idle-devices",
        "low-utilization",
        "high-utilization",
        "replicated-op",
        "small-batch",
        "indivisible-batch",
        "full-memory",
    ] = Field(description="The kind of the warning.")
    text: str = Field(description="The warning in sentences.")


class Overview(Document):
    """An overview of a plan, without its ops."""

    prefix: ClassVar[str] = "view"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    plan: str = Field(description="The id of the plan.")
    name: str = Field(description="The name of the plan.")
    graph: str = Field(description="The id of the operator graph.")
    graph_name: str = Field(description="The name of the operator graph.")
    topology: str = Field(description="The id of the topology.")
    topology_name: str = Field(description="The name of the topology.")
    setup: Setup = Field(description="The training setup.")
    calibration: str = Field(description="The id of the calibration.")
    calibration_name: str = Field(description="The name of the calibration.")
    wishes: Wishes = Field(description="The options of the request.")
    asked: tuple[str, ...] = Field(
        default=(),
        description="The options of the request that differ from the defaults, in words, then the "
        "pins.",
    )
    step_interval_ns: tuple[Ns, Ns] | None = Field(
        default=None,
        description="The interval in which 80 % of published steps lie around their prediction, "
        "in nanoseconds. None if no published steps say one.",
    )
    fits_probability: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="The probability that the plan fits in the memory of its devices. None for "
        "inference.",
    )
    samples_per_s: float | None = Field(
        default=None,
        description="The throughput in samples per second. None if the graph has no batch.",
    )
    tokens_per_s: float | None = Field(
        default=None,
        description="The throughput in tokens per second. None if the graph has no sequences.",
    )
    tokens_per_s_per_device: float | None = Field(
        default=None,
        description="Tokens per second and device. None if the graph has no sequences.",
    )
    model_flops: float | None = Field(
        default=None,
        description="The model FLOPs of a step: products, convolutions and attention, forward and "
        "backward, without recomputation and repeated work. None if unknown.",
    )
    utilization: float | None = Field(
        default=None,
        description="The model FLOPs utilization (MFU), 0 to 1. None if the FLOPs are unknown.",
    )
    kinds: tuple[KindTime, ...] = Field(
        default=(), description="The five kinds of ops that take most time."
    )
    warnings: tuple[PlanWarning, ...] = Field(
        default=(), description="The warnings, most severe first."
    )
    microbatches: int = Field(description="The number of microbatches of a step.")
    schedule: Schedule | None = Field(
        default=None, description="The pipeline schedule. None if the plan has one stage."
    )
    uniform: Uniform = Field(
        description="The plan as parallel degrees, with the first hundred kinds of differences."
    )
    parallelism: tuple[ParallelShare, ...] = Field(
        default=(),
        description="The parallelism of the modules, by share of the compute time, longest first.",
    )
    differing: int = Field(
        default=0,
        ge=0,
        description="The number of ops and parameters that differ from the degrees.",
    )
    differing_kinds: int = Field(default=0, ge=0, description="The number of kinds of differences.")
    stages: tuple[StageOverview, ...] = Field(description="The stages of the plan.")
    cost: Cost = Field(description="The cost of the plan.")
    search: Search = Field(description="The search that found the plan.")
    repeated_work: float = Field(description="The share of arithmetic that devices repeat, 0 to 1.")
    waste: str = Field(
        default="",
        description="A sentence on idle devices. Empty if most devices do distinct work.",
    )
    unknown_kinds: tuple[str, ...] = Field(
        default=(), description="The kinds of ops without a sharding rule."
    )
    padding: tuple[Padding, ...] = Field(default=(), description="The padded dims.")
    collectives: int = Field(
        default=0,
        ge=0,
        description="The number of collectives of gradients and parameters that are fused.",
    )
    buckets: int = Field(
        default=0, ge=0, description="The number of buckets into which these collectives are fused."
    )
    notes: tuple[str, ...] = Field(default=(), description="Remarks on the plan, in sentences.")
