"""Plans: immutable, content-addressed and complete enough to run.

A plan states every choice: the mesh, the strategy of every op, the layouts of every tensor at rest
and as read, the layouts of parameters, gradients and optimizer state, and the collective steps
between them. All of its numbers come from `evaluate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from meshwright.schema.cost import Cost
from meshwright.schema.errors import PlanError
from meshwright.schema.migration import PlanMove
from meshwright.schema.model import Document, Model, Number
from meshwright.schema.pipeline import Schedule
from meshwright.schema.plan_frame import frame_of_stages
from meshwright.schema.request_options import Wishes
from meshwright.schema.search_record import Search
from meshwright.schema.sequence_order import SequenceOrder
from meshwright.schema.stage import Stage

if TYPE_CHECKING:
    import pandas as pd

GIB = 2**30


class Padding(Model):
    """A padded dim of a parameter or input, stored with zeros at its end."""

    tensor: str = Field(description="The name of the tensor.")
    dim: int = Field(ge=0, description="The position of the dim, from 0.")
    size: int = Field(ge=1, description="The length of the dim in elements.")
    padded: int = Field(ge=1, description="The stored length of the dim in elements.")


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

    def _html_rows(self) -> Iterator[tuple[str, str]]:
        memory, search = self.cost.memory_bytes, self.search
        fields = dict(self._repr_fields())
        yield "id", self.id
        yield "name", self.name
        yield "devices", f"{fields['devices']:,}"
        yield "stages", f"{len(self.stages)}"
        yield "microbatches", f"{self.microbatches}"
        yield "target", self.wishes.target or "any strategy"
        yield "predicted step", f"{self.cost.step_ns / 1e6:,.3f} ms"
        yield "memory of a device", f"{memory.total / GIB:,.2f} of {memory.capacity / GIB:,.2f} GiB"
        yield "outcome of the search", f"{search.outcome}, gap {search.gap:.1%}"

    def to_frame(self) -> pd.DataFrame:
        """The ops as a table of pandas, with their strategies and times of a step in nanoseconds.

        The columns are stage, op, kind, rule, strategy, compute_ns, communication_ns (collectives
        of the op) and redistribution_ns (before the op reads its inputs). A redistribution that
        all readers of a tensor share is a row of its own: the kind is `redistribution`, the op the
        name of the tensor. Raises Unavailable without pandas.
        """
        return frame_of_stages(self.stages)

    @property
    def step_gap(self) -> float | None:
        """The share by which the step is above the bound on every configuration of the request.

        None if no bound is proved.
        """
        bound_ns = self.search.step_bound_ns
        return max(0.0, self.cost.step_ns / bound_ns - 1) if bound_ns else None

    @property
    def largest_redistribution_bytes(self) -> int:
        """Buffers of the largest redistribution on one device, apart from the peak memory."""
        moved = (moved for stage in self.stages for moved in stage.redistributions)
        return max((redistribution.largest_step_bytes for redistribution in moved), default=0)
