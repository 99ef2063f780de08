"""Overviews: what a plan is and costs, without its ops. Made when asked for."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.mesh import Axis, Mesh
from meshwright.schema.model import Document, Model, Ns
from meshwright.schema.pipeline import Passes, Schedule
from meshwright.schema.plan import Cost, Padding, Search
from meshwright.schema.setup import Setup
from meshwright.schema.uniform import Role, Uniform
from meshwright.schema.wishes import Wishes


class StageOverview(Model):
    """A stage without its ops. first, last: of the ops that no other stage has. roles: what
    axes are for, of those for which most of the work on them says it. received_bytes and
    received_ns: forward, of a microbatch. again: so many ops are done again in the backward pass.
    """

    stage: int
    pipeline_rank: int
    first_rank: int
    devices: int
    mesh: Mesh
    roles: dict[Axis, Role] = Field(default_factory=dict)
    ops: int
    first: str
    last: str
    in_flight: int
    passes: Passes | None = None
    received_bytes: int = 0
    received_ns: Ns = 0
    recompute: str | None = None
    again: int = 0
    uneven: Literal["refuse", "chunk", "pad"] = "refuse"
    memory_bytes: int
    capacity_bytes: int


class Overview(Document):
    """A plan without its ops.

    asked: the wishes that are not the default, in words, then the pins.
    samples_per_s, tokens_per_s: where the graph has a batch, and sequences. uniform: the plan in
    the degrees that frameworks have, with the first hundred kinds of what is not so; of those there
    are differing_kinds, of differing ops and parameters. collectives, buckets: of gradients and
    parameters that run as one, so many as so many.
    """

    prefix: ClassVar[str] = "view"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = 1
    plan: str
    name: str
    graph: str
    graph_name: str
    topology: str
    topology_name: str
    setup: Setup
    calibration: str
    calibration_name: str
    wishes: Wishes
    asked: tuple[str, ...] = ()
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    microbatches: int
    schedule: Schedule | None = None
    uniform: Uniform
    differing: int = Field(default=0, ge=0)
    differing_kinds: int = Field(default=0, ge=0)
    stages: tuple[StageOverview, ...]
    cost: Cost
    search: Search
    repeated_work: float
    unknown_kinds: tuple[str, ...] = ()
    padding: tuple[Padding, ...] = ()
    collectives: int = Field(default=0, ge=0)
    buckets: int = Field(default=0, ge=0)
    notes: tuple[str, ...] = ()
