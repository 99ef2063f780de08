"""What is asked of the planner, and how it answers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, StrictBool

from meshwright.schema.calibration import Calibration
from meshwright.schema.certificate import Certificate
from meshwright.schema.errors import RequestError
from meshwright.schema.graph import Graph
from meshwright.schema.mesh import Axis
from meshwright.schema.model import Document, Model, Whole
from meshwright.schema.plan import Plan
from meshwright.schema.setup import Setup
from meshwright.schema.topology import Topology

MAX_BUDGET_S = 3600.0  # chosen


class Pin(Model):
    """A strategy that the user fixes: for every op whose name or module path matches the glob `op`.

    Axes are names of the mesh or of topology levels (a level means all of its axes).
    """

    op: str = Field(min_length=1, max_length=512)
    strategy: dict[str, tuple[Axis, ...]]


class Budget(Model):
    """Limits of a search. Where time runs out the best plan so far is the answer.

    max_axes: meshes of so many axes are searched. Each one more takes about ten times as long.
    """

    seconds: float | None = Field(default=None, gt=0, le=MAX_BUDGET_S)
    max_axes: Whole = Field(default=3, ge=1, le=4)


# One search, or `auto`: all that suit the problem, in the order in which they pay.
Solver = Literal[
    "auto",
    "dynamic_programming",
    "recursive_programming",
    "sharding_propagation",
    "semi_auto",
    "exact",
]

MAX_PINS = 1000  # chosen: every pin is held against every op's name before a search is queued


class Request(Document):
    """A complete planning request; its id is the request digest that finds a cached plan.

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
    pins: tuple[Pin, ...] = Field(default=(), max_length=MAX_PINS)
    solver: Solver = "auto"
    budget: Budget = Budget()
    verify: StrictBool = False

    @property
    def id(self) -> str:
        """The content-addressed id of what decides the plan."""
        return self.model_copy(update={"verify": False}).id if self.verify else super().id


class Infeasible(Model):
    """No plan, and why: the constraint that binds and by how much it is missed.

    time: the search ended before it had found a plan, or proved that there is none.
    """

    constraint: Literal["memory", "pins", "time"]
    detail: str
    needed_bytes: int | None = None
    available_bytes: int | None = None


class Progress(Model):
    """What a search can say while it runs; costs in nanoseconds of one step."""

    phase: str
    done: int
    total: int
    incumbent_ns: float | None = None
    lower_bound_ns: float | None = None


class Answer(Model):
    """What the planner returns: a plan, or why there is none.

    certificate: what executing the plan showed, where that was asked for. seconds: how long after
    the start each entry of the plan's `search.history` was found; on another day, others.
    """

    plan: Plan | None = None
    infeasible: Infeasible | None = None
    certificate: Certificate | None = None
    seconds: tuple[float, ...] = ()
