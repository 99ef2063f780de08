"""What is asked of the planner, and how it answers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, StrictBool, model_validator

from meshwright.schema.before import Before
from meshwright.schema.calibration import Calibration
from meshwright.schema.certificate import Certificate
from meshwright.schema.errors import RequestError
from meshwright.schema.graph import Graph
from meshwright.schema.model import Document, Line, Model, Number, Whole
from meshwright.schema.plan import MemoryUse, Plan
from meshwright.schema.setup import Setup
from meshwright.schema.sizes import MAX_SIZE
from meshwright.schema.topology import Topology
from meshwright.schema.wishes import Wishes


class Request(Wishes, Document):
    """A complete planning request; its id is the request digest that finds a cached plan.

    before: the plan that a job runs now, of the same graph; the move from there counts.

    verify: whoever runs the planner executes its plan too. The certificate is a record beside the
    plan and changes nothing in it: with and without, the request has one id.
    """

    prefix: ClassVar[str] = "req"
    error: ClassVar[type[RequestError]] = RequestError

    schema_version: Literal[1] = 1
    graph: Graph
    topology: Topology
    setup: Setup = Setup()
    calibration: Calibration | None = None
    before: Before | None = None
    verify: StrictBool = False

    @model_validator(mode="after")
    def _goes_on_with_its_graph(self) -> Request:
        if self.before is not None and self.before.plan.graph != self.graph.id:
            raise RequestError(
                f"the plan {self.before.plan.id} is of the graph {self.before.plan.graph}, the "
                f"request of {self.graph.id}: a job goes on with the graph that it has",
                pointer="/before/plan/graph",
            )
        return self

    @property
    def id(self) -> str:
        """The content-addressed id of what decides the plan."""
        return self.model_copy(update={"verify": False}).id if self.verify else super().id


class Consumer(Model):
    """What takes memory: `count` tensors like the one named, `bytes` on one device together."""

    tensor: str
    count: int
    bytes: int


class Infeasible(Model):
    """No plan, and why: the constraint that binds and by how much it is missed.

    time: the search ended before it had found a plan, or proved that there is none.
    least, largest: of memory, what every plan takes of each kind, and of which tensors most. pins:
    those that no plan keeps together; with any one of them left out there is a plan.
    """

    constraint: Literal["memory", "pins", "time"]
    detail: str
    needed_bytes: int | None = None
    available_bytes: int | None = None
    least: MemoryUse | None = None
    largest: tuple[Consumer, ...] = ()
    pins: tuple[str, ...] = ()


class Progress(Model):
    """What a search can say while it runs; costs in nanoseconds of one step.

    incumbent_ns: of the best plan so far. lower_bound_ns: of all plans on the mesh that it is at.
    """

    phase: Line
    done: Whole = Field(ge=0, le=MAX_SIZE)
    total: Whole = Field(ge=0, le=MAX_SIZE)
    incumbent_ns: Number | None = None
    lower_bound_ns: Number | None = None


class Answer(Model):
    """What the planner returns: a plan, or why there is none.

    certificate: what executing the plan showed, where that was asked for. seconds: how long after
    the start each entry of the plan's `search.history` was found; on another day, others; empty
    where that is not known. ended_early: somebody ended the search; this is the best until then.
    """

    plan: Plan | None = None
    infeasible: Infeasible | None = None
    certificate: Certificate | None = None
    seconds: tuple[Number, ...] = ()
    ended_early: bool = False
