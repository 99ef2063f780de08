"""What is asked of the planner, and how it answers."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    model_serializer,
    model_validator,
)

from meshwright.schema.calibration import Calibration
from meshwright.schema.certificate import Certificate
from meshwright.schema.cuts import Cuts, show_cuts
from meshwright.schema.degrees import Degrees
from meshwright.schema.errors import RequestError
from meshwright.schema.graph import Graph
from meshwright.schema.mesh import Axis
from meshwright.schema.model import Document, Model, Whole
from meshwright.schema.pipeline import Pipeline
from meshwright.schema.plan import MemoryUse, Plan
from meshwright.schema.recompute import Recompute
from meshwright.schema.setup import Setup
from meshwright.schema.topology import MAX_DEVICES, Topology

MAX_BUDGET_S = 3600.0  # chosen
MAX_ALIGNMENT = 1024  # chosen: MindSpore's limit, more than any unit of matrix products wants
MAX_THRESHOLD_KB = 2**30  # chosen: a terabyte, more than any parameter


class Pin(Model):
    """What the user fixes: for every op whose name or module path matches the glob `op`.

    One of three: `strategy`, which axes lie on which factor, all others idle; `inputs` and
    `outputs`, the cuts of every input and of every output, null where one is left open; or
    `data_parallel`. Axes are names of the mesh or of topology levels (a level means all of its
    axes).
    """

    op: str = Field(min_length=1, max_length=512)
    strategy: dict[str, tuple[Axis, ...]] | None = None
    inputs: tuple[Cuts | None, ...] | None = None
    outputs: tuple[Cuts | None, ...] | None = None
    data_parallel: StrictBool = False

    @model_validator(mode="after")
    def _says_one_thing(self) -> Pin:
        has_cuts = self.inputs is not None or self.outputs is not None
        said = (self.strategy is not None) + has_cuts + self.data_parallel
        if said != 1:
            raise RequestError(
                f"pin {self.op!r} says {'two things' if said else 'nothing'}: give one of "
                "`strategy`, `inputs` and `outputs`, or `data_parallel`"
            )
        return self

    def __str__(self) -> str:
        """As people type it for `--pin`."""
        if self.data_parallel:
            return f"{self.op}:data_parallel"
        if self.strategy is not None:
            said = ",".join(f"{factor}={'+'.join(axes)}" for factor, axes in self.strategy.items())
            return f"{self.op}:{said}"
        given, made = (_tensors(own) for own in (self.inputs, self.outputs))
        return f"{self.op}:{given}" + (f"->{made}" if made else "")

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = serialize(self)
        return {key: value for key, value in found.items() if value not in (None, False)}


def _tensors(cuts: tuple[Cuts | None, ...] | None) -> str:
    if cuts is None:
        return ""
    return f"({','.join('_' if own is None else show_cuts(own) for own in cuts)})"


Offload = Literal["none", "optimizer", "embeddings", "auto"]


class OptimizerParallel(Model):
    """How finely parameters may lie at rest beyond what their readers need (ZeRO, HSDP, FSDP).

    level: what is sharded of every parameter that data-parallel devices would repeat, as finely as
    its sizes allow. 0 nothing; 1 the optimizer state; 2 the gradient too; 3 the value too, so that
    it is gathered in every pass. None: the search chooses for every parameter.
    shard_size: over so many devices at most; None = over all that would repeat it.
    threshold_kb: parameters of so many KiB or less stay whole.
    gradient_accumulation_shard: whether gradients are summed over microbatches in shards; None = as
    the level says. True at level 1 is level 2.
    """

    level: Literal[0, 1, 2, 3] | None = None
    shard_size: Whole | None = Field(default=None, ge=1, le=MAX_DEVICES)
    threshold_kb: Whole = Field(default=64, ge=0, le=MAX_THRESHOLD_KB)
    gradient_accumulation_shard: StrictBool | None = None

    @model_validator(mode="after")
    def _valid(self) -> OptimizerParallel:
        level, shards = self.level, self.gradient_accumulation_shard
        if (level == 0 and shards) or (level in (2, 3) and shards is False):
            raise RequestError(
                f"optimizer_parallel: level {level} keeps gradients "
                f"{'whole' if level == 0 else 'in shards'}, gradient_accumulation_shard: "
                f"{str(shards).lower()} says otherwise; leave it out, or take level 1"
            )
        return self


class Constraints(Model):
    """What plans may be, for all ops alike; pins go before.

    fully_use_devices: an op is divided over all devices, or is done whole by every one.
    elementwise_follow: element-wise ops take their first input as it lies, or as another reader
    needs it: no redistribution is made for them.
    slice_alignment: where a matrix product's tensors are cut in their last dim, the parts are
    multiples of so many elements.
    optimizer_parallel: how finely parameters lie at rest; None = the search chooses.
    offload: what may lie and be worked on in the memory of hosts, where the search finds it worth
    it: `optimizer` state, with the update, and gradients that wait for it; `embeddings`, tables
    that one op looks rows up in, with the lookup; `auto`: either.
    """

    fully_use_devices: StrictBool = False
    elementwise_follow: StrictBool = False
    slice_alignment: Whole = Field(default=1, ge=1, le=MAX_ALIGNMENT)
    optimizer_parallel: OptimizerParallel | None = None
    offload: Offload = "none"


class Budget(Model):
    """Limits of a search. Where time runs out the best plan so far is the answer.

    max_axes: meshes of so many axes are searched. Each one more takes about ten times as long.
    simplicity: of the plans that cost at most this share more than the best found, the one with the
    fewest re-layouts, and repeated layers most alike, is the answer.
    """

    seconds: float | None = Field(default=None, gt=0, le=MAX_BUDGET_S)
    max_axes: Whole = Field(default=3, ge=1, le=4)
    simplicity: float = Field(default=0.005, ge=0, le=0.1)


# One search, or `auto`: all that suit the problem, in the order in which they pay.
Solver = Literal[
    "auto",
    "dynamic_programming",
    "recursive_programming",
    "sharding_propagation",
    "semi_auto",
    "exact",
]

# How `semi_auto` settles what the pins leave open.
Rest = Literal["data_parallel", "propagate"]

MAX_PINS = 1000  # chosen: every pin is held against every op's name before a search is queued


class Request(Document):
    """A complete planning request; its id is the request digest that finds a cached plan.

    module: only ops whose name or module path matches this glob are searched; all others keep their
    pins, or are data parallel.
    rest: how the search `semi_auto` settles ops without pins.
    degrees: a strategy that is stated, for each pipeline rank: what it leaves open is settled at
    the least cost, and it is answered whether it fits or not.
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
    rest: Rest = "data_parallel"
    constraints: Constraints = Constraints()
    pipeline: Pipeline = Pipeline()
    degrees: Degrees | None = None
    recompute: Recompute = Recompute()
    module: str | None = Field(default=None, min_length=1, max_length=512)
    budget: Budget = Budget()
    verify: StrictBool = False

    @model_validator(mode="after")
    def _states_all_or_nothing(self) -> Request:
        if self.degrees is None:
            return self
        if self.pipeline.ranks is None:
            raise RequestError(
                "a strategy that is stated has a number of pipeline ranks; 1 for none",
                pointer="/pipeline/ranks",
            )
        level = self.constraints.optimizer_parallel and self.constraints.optimizer_parallel.level
        if level not in (None, self.degrees.zero):
            raise RequestError(
                f"degrees state zero {self.degrees.zero}, optimizer_parallel level {level}: leave "
                "the level out",
                pointer="/constraints/optimizer_parallel/level",
            )
        if self.solver not in ("auto", "dynamic_programming", "exact"):
            raise RequestError(
                f"what degrees leave open is searched by dynamic_programming or exact, not by "
                f"{self.solver}",
                pointer="/solver",
            )
        if self.module is not None:
            raise RequestError(
                "degrees are stated for all ops, and `module` says that some are searched; "
                "leave one of the two out",
                pointer="/module",
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

    phase: str
    done: int
    total: int
    incumbent_ns: float | None = None
    lower_bound_ns: float | None = None


class Answer(Model):
    """What the planner returns: a plan, or why there is none.

    certificate: what executing the plan showed, where that was asked for. seconds: how long after
    the start each entry of the plan's `search.history` was found; on another day, others; empty
    where that is not known. ended_early: somebody ended the search; this is the best until then.
    """

    plan: Plan | None = None
    infeasible: Infeasible | None = None
    certificate: Certificate | None = None
    seconds: tuple[float, ...] = ()
    ended_early: bool = False
