"""Comparisons: two plans beside each other, in total and op by op. Made when asked for."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.mesh import Axis, Mesh
from meshwright.schema.model import Document, Model, Ns
from meshwright.schema.plan import MemoryUse

Differing = Literal["only in one", "stage", "strategy", "layout", "cost"]


class PlanTotals(Model):
    """What a plan is and costs as a whole; the times as of `Cost`. schedule: of a pipeline."""

    plan: str
    name: str
    graph: str
    topology: str
    setup: str
    calibration: str
    meshes: tuple[Mesh, ...]
    microbatches: int
    schedule: str | None
    recompute: tuple[str, ...]
    step_ns: Ns
    objective_ns: Ns
    compute_ns: Ns
    bubble_ns: Ns
    communication_ns: dict[str, float]
    exposed_ns: dict[str, float]
    memory_bytes: MemoryUse
    memory_total_bytes: int
    ops: int


class ComparedOps(Model):
    """Ops of one plan. The times are over a step, the bytes of a device, all of them together."""

    stages: tuple[int, ...]
    strategy: dict[str, tuple[Axis, ...]]
    partial: dict[Axis, int] = Field(default_factory=dict)
    followers: tuple[Axis, ...] = ()
    outputs: tuple[str, ...]
    compute_ns: Ns
    communication_ns: Ns
    saved_bytes: int
    parameter_bytes: int


class OpDifference(Model):
    """Ops that differ in the same way. label: of all their names. first, second: None where the
    plan has no such op."""

    label: str
    count: int = Field(ge=1)
    kind: str
    differing: tuple[Differing, ...]
    first: ComparedOps | None
    second: ComparedOps | None


class Comparison(Document):
    """Two plans. alike: so many ops differ in nothing; differences: all others, the largest
    difference of time first."""

    prefix: ClassVar[str] = "cmp"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = 1
    first: PlanTotals
    second: PlanTotals
    alike: int = Field(ge=0)
    differences: tuple[OpDifference, ...]
