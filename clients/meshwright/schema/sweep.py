"""Sweeps: one planning request over several topologies, batches, lengths, precisions and targets.

The points of a sweep are all combinations of its axes, the first axis slowest. Each point is a
planning request of its own.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from meshwright.schema.errors import InvalidInput, RequestError
from meshwright.schema.model import Document, Line, Model, Number, Whole
from meshwright.schema.plan_figures import PlanFigures
from meshwright.schema.request_options import Wishes
from meshwright.schema.setup import Precision, Setup
from meshwright.schema.sizes import MAX_SIZE
from meshwright.schema.target import Target
from meshwright.schema.topology import Topology

MAX_POINTS = 500  # chosen: half of the jobs that a tenant of a service may have open
MAX_VALUES = 200  # chosen: of one axis

Size = Annotated[Whole, Field(ge=1, le=MAX_SIZE)]
Price = Annotated[Number, Field(ge=0, le=1e9)]

SweepState = Literal[
    "waiting", "searching", "planned", "infeasible", "refused", "failed", "cancelled", "deleted"
]
OPEN_STATES: tuple[SweepState, ...] = ("waiting", "searching")


class Sweep(Wishes, Document):
    """A set of planning requests that differ along up to five axes.

    An empty axis has one value, that of the setup or of the graph. All other options are the same
    at every point.
    """

    prefix: ClassVar[str] = "sweep"
    error: ClassVar[type[InvalidInput]] = RequestError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    name: Line = Field(default="", description="The name of the sweep.")
    topologies: tuple[Line | Topology, ...] = Field(
        min_length=1,
        max_length=MAX_VALUES,
        description="The topologies: documents, ids, or names of presets. Braces in a name stand "
        "for several: `h100-{2,4}x8` is `h100-2x8` and `h100-4x8`.",
    )
    batches: tuple[Size, ...] = Field(
        default=(), max_length=MAX_VALUES, description="The global batch sizes."
    )
    sequences: tuple[Size, ...] = Field(
        default=(), max_length=MAX_VALUES, description="The sequence lengths."
    )
    precisions: tuple[Precision, ...] = Field(
        default=(), max_length=MAX_VALUES, description="The precisions of large products."
    )
    targets: tuple[Target | None, ...] = Field(
        default=(),
        max_length=MAX_VALUES,
        description="The frameworks that run the plans. null: a plan without a target.",
    )
    setup: Setup = Field(default=Setup(), description="The training setup of every point.")
    prices: dict[Line, Price] = Field(
        default_factory=dict,
        max_length=MAX_VALUES,
        description="The price of a device for an hour, in any currency. A key is the first part "
        "of a preset's name, such as `h100`, or the name of a topology or of a device.",
    )
    tokens: Annotated[Whole, Field(ge=1, le=10**18)] | None = Field(
        default=None,
        description="The tokens of the whole training run; samples for a graph without sequences.",
    )

    @model_validator(mode="after")
    def _check_axes(self) -> Sweep:
        stated = {
            "batches": self.setup.global_batch is not None,
            "sequences": "seq" in self.setup.symbols,
            "precisions": "precision" in self.setup.model_fields_set,
            "targets": self.target is not None,
        }
        for field, is_stated in stated.items():
            if is_stated and getattr(self, field):
                raise RequestError(
                    f"{field} and the same option of the whole sweep are both given. Leave one of "
                    "the two out",
                    pointer=f"/{field}",
                )
        return self


class SweepPoint(Model):
    """A point of a sweep. A None field has the value of the setup or of the graph.

    topology: the name of a preset, or the name or the id of a document.
    """

    topology: Line = Field(description="The topology.")
    batch: int | None = Field(default=None, description="The global batch size.")
    sequence: int | None = Field(default=None, description="The sequence length.")
    precision: Precision | None = Field(default=None, description="The precision.")
    target: Target | None = Field(default=None, description="The framework that runs the plan.")


class SweepRow(Model):
    """The answer of one point."""

    point: SweepPoint = Field(description="The point.")
    state: SweepState = Field(
        description="`planned`: there is a plan. `infeasible`: there is none. `refused`: the "
        "request is invalid. `failed`: the search failed. `deleted`: the answer was deleted."
    )
    figures: PlanFigures | None = Field(default=None, description="The figures of the plan.")
    reason: str = Field(default="", description="The reason for which there is no plan.")
    job: str | None = Field(default=None, description="The id of the job, of a service.")
    price_per_hour: Number | None = Field(
        default=None, description="The price of all devices of the topology for an hour."
    )
    price_per_million: Number | None = Field(
        default=None, description="The price of a million tokens (samples without sequences)."
    )
    run_days: Number | None = Field(
        default=None, description="The duration of the training run, in days."
    )
    run_price: Number | None = Field(default=None, description="The price of the training run.")
    on_front: bool = Field(
        default=False,
        description="Whether no other row has a higher throughput on as few devices.",
    )

    @property
    def is_open(self) -> bool:
        """Whether the answer may still change."""
        return self.state in OPEN_STATES


class SweepResult(Document):
    """The answers of a sweep, in the order of its points."""

    prefix: ClassVar[str] = "sweepresult"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    sweep: Sweep = Field(description="The sweep.")
    graph: str = Field(description="The id of the graph.")
    graph_name: str = Field(default="", description="The name of the graph.")
    planner_build: str = Field(default="", description="The build of the planner.")
    rows: tuple[SweepRow, ...] = Field(description="The answers.")

    @property
    def done(self) -> int:
        """The number of points whose answer is final."""
        return sum(not row.is_open for row in self.rows)
