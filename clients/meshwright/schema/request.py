"""Planning requests and answers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, StrictBool, model_validator

from meshwright.schema.calibration import Calibration
from meshwright.schema.certificate import Certificate
from meshwright.schema.cost import MemoryUse
from meshwright.schema.errors import RequestError
from meshwright.schema.graph import Graph
from meshwright.schema.model import Document, Line, Model, Number, Whole
from meshwright.schema.plan import Plan
from meshwright.schema.request_options import Wishes
from meshwright.schema.running_plan import Before
from meshwright.schema.setup import Setup
from meshwright.schema.sizes import MAX_SIZE
from meshwright.schema.topology import Topology


class Request(Wishes, Document):
    """A planning request. Its id is the digest under which the service caches the plan.

    The field `verify` does not change the id, because the certificate is a record beside the plan.
    """

    prefix: ClassVar[str] = "req"
    error: ClassVar[type[RequestError]] = RequestError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    graph: Graph = Field(description="The operator graph.")
    topology: Topology = Field(description="The topology of the cluster.")
    setup: Setup = Field(default=Setup(), description="The training setup.")
    calibration: Calibration | None = Field(
        default=None, description="The calibration. None: the planner's own calibration."
    )
    before: Before | None = Field(
        default=None,
        description="The plan that a job of the same graph runs now. The plan then includes the "
        "cost of the move.",
    )
    verify: StrictBool = Field(
        default=False,
        description="Whether the planner also executes the plan and returns a certificate.",
    )

    @model_validator(mode="after")
    def _check_graph(self) -> Request:
        if self.before is not None and self.before.plan.graph != self.graph.id:
            raise RequestError(
                f"the plan {self.before.plan.id} is of the graph {self.before.plan.graph}, the "
                f"request of {self.graph.id}. Use the graph of the running plan",
                pointer="/before/plan/graph",
            )
        return self

    @property
    def id(self) -> str:
        """The content-addressed id of all fields that affect the plan."""
        return self.model_copy(update={"verify": False}).id if self.verify else super().id


class Consumer(Model):
    """A consumer of memory: a group of equal tensors."""

    tensor: str = Field(description="The name of one of the tensors.")
    count: int = Field(description="The number of tensors.")
    bytes: int = Field(description="The size of all of them on one device, in bytes.")


class Infeasible(Model):
    """The reason for which a request has no plan."""

    constraint: Literal["memory", "pins", "time"] = Field(
        description="The binding constraint. `time`: the search ended before it found a plan or a "
        "proof of infeasibility."
    )
    detail: str = Field(description="The reason in a sentence.")
    needed_bytes: int | None = Field(
        default=None, description="The memory that every plan needs on a device, in bytes."
    )
    available_bytes: int | None = Field(
        default=None, description="The memory of a device, in bytes."
    )
    least: MemoryUse | None = Field(
        default=None, description="The memory that every plan needs, by kind."
    )
    largest: tuple[Consumer, ...] = Field(
        default=(), description="The largest consumers of memory."
    )
    pins: tuple[str, ...] = Field(
        default=(),
        description="The pins that no plan satisfies together. A plan exists without any one of "
        "them.",
    )


class Progress(Model):
    """The progress of a running search or measurement."""

    phase: Line = Field(description="The name of the phase.")
    done: Whole = Field(
        ge=0, le=MAX_SIZE, description="The number of completed units of the phase."
    )
    total: Whole = Field(ge=0, le=MAX_SIZE, description="The number of units of the phase.")
    incumbent_ns: Number | None = Field(
        default=None, description="The objective of the best plan so far, in nanoseconds per step."
    )
    lower_bound_ns: Number | None = Field(
        default=None,
        description="A lower bound on the objective of all plans on the current mesh, in "
        "nanoseconds per step.",
    )


class Answer(Model):
    """The answer of the planner: a plan, or the reason for which there is none."""

    plan: Plan | None = Field(default=None, description="The plan.")
    infeasible: Infeasible | None = Field(
        default=None, description="The reason for which there is no plan."
    )
    certificate: Certificate | None = Field(
        default=None, description="The certificate of the plan, if the request asked for it."
    )
    seconds: tuple[Number, ...] = Field(
        default=(),
        description="The times in seconds after the start at which each entry of the plan's "
        "`search.history` was found. Empty if unknown.",
    )
    ended_early: bool = Field(
        default=False,
        description="Whether a user ended the search, which then returns its best plan.",
    )
