"""Request options: everything in a request besides its documents."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, StrictBool, field_validator, model_validator

from meshwright.schema.constraints import Constraints, OptimizerParallel
from meshwright.schema.degrees import Degrees
from meshwright.schema.error_pointer import error_within_field
from meshwright.schema.errors import InvalidInput, RequestError
from meshwright.schema.model import Model, Number, Whole
from meshwright.schema.pin import Pin
from meshwright.schema.pipeline import Pipeline
from meshwright.schema.recompute import Recompute
from meshwright.schema.target import Target

MAX_BUDGET_S = 3600.0  # chosen
BUDGET_S = 30.0  # chosen: what a user waits for
MAX_PINS = 1000  # chosen: the service matches every pin with every op before it queues a search


class Budget(Model):
    """The limits of a search. If the time runs out, the search returns its best plan."""

    error: ClassVar[type[InvalidInput]] = RequestError

    seconds: Number | None = Field(
        default=BUDGET_S,
        gt=0,
        le=MAX_BUDGET_S,
        description="The time limit in seconds. null: no limit.",
    )
    max_axes: Whole = Field(
        default=3,
        ge=1,
        le=4,
        description="The maximum number of mesh axes. Each further axis takes about ten times as "
        "long.",
    )
    simplicity: Number = Field(
        default=0.005,
        ge=0,
        le=0.1,
        description="The share of extra cost that a simpler plan may have. Among these plans the "
        "search returns the one with the fewest redistributions and the most uniform layers.",
    )
    unrestricted: StrictBool = Field(
        default=True,
        description="Whether a search for a target also searches without it, in the rest of the "
        "time, to state what the restriction costs.",
    )


# One search, or `auto`: all searches that suit the problem, the most effective first.
Solver = Literal[
    "auto",
    "dynamic_programming",
    "recursive_programming",
    "sharding_propagation",
    "semi_auto",
    "exact",
]

# The sharding of ops without pins in the search `semi_auto`.
Rest = Literal["data_parallel", "propagate"]


class Wishes(Model):
    """The options of a request: everything besides its documents."""

    error: ClassVar[type[InvalidInput]] = RequestError

    pins: tuple[Pin, ...] = Field(
        default=(), max_length=MAX_PINS, description="The shardings that the user fixes."
    )
    solver: Solver = Field(
        default="auto", description="The search. `auto`: all searches that suit the problem."
    )
    rest: Rest = Field(
        default="data_parallel",
        description="The sharding of ops without pins in the search `semi_auto`.",
    )
    constraints: Constraints = Field(
        default=Constraints(), description="The constraints on all plans."
    )
    pipeline: Pipeline = Field(default=Pipeline(), description="The pipeline options.")
    degrees: Degrees | None = Field(
        default=None,
        description="The parallel degrees of each pipeline rank. The search chooses only what "
        "they leave open, and returns the plan even if it does not fit. Without a number of "
        "pipeline ranks there is no pipeline.",
    )
    target: Target | None = Field(
        default=None,
        description="The framework that runs the plan. The search considers only strategies that "
        "its own options state, with the software stack of the framework. None: all strategies.",
    )
    recompute: Recompute = Field(
        default=Recompute(), description="The options of activation recomputation."
    )
    module: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="A glob of names or module paths of ops to search. All other ops keep their "
        "pins or are data parallel.",
    )
    budget: Budget = Field(default=Budget(), description="The limits of the search.")

    _pointer = field_validator(
        "pins", "constraints", "pipeline", "degrees", "recompute", mode="wrap"
    )(error_within_field)

    @model_validator(mode="after")
    def _check_degrees(self) -> Wishes:
        if self.degrees is None:
            return self
        if self.pipeline.ranks is None and self.pipeline != Pipeline():
            raise RequestError(
                "degrees with a schedule, virtual stages or cuts need a number of pipeline ranks",
                pointer="/pipeline/ranks",
            )
        parallel = self.constraints.optimizer_parallel or OptimizerParallel()
        level = parallel.level
        if level not in (None, self.degrees.zero):
            raise RequestError(
                f"degrees state zero {self.degrees.zero}, optimizer_parallel level {level}. Leave "
                "the level out",
                pointer="/constraints/optimizer_parallel/level",
            )
        if parallel.shard_size is not None and self.degrees.zero == 0:
            raise RequestError(
                f"optimizer_parallel: shard_size is {parallel.shard_size}, but degrees state zero "
                "0, which shards nothing. Use zero 1, 2 or 3",
                pointer="/constraints/optimizer_parallel/shard_size",
            )
        if self.solver not in ("auto", "dynamic_programming", "exact"):
            raise RequestError(
                f"degrees need the solver dynamic_programming or exact, got {self.solver}. Use one "
                "of these or auto",
                pointer="/solver",
            )
        if self.module is not None:
            raise RequestError(
                "degrees apply to all ops, `module` to a part of them. Leave one of the two out",
                pointer="/module",
            )
        return self

    @model_validator(mode="after")
    def _check_target(self) -> Wishes:
        if self.target is None:
            return self
        others = {
            "degrees": self.degrees is not None,
            "pins": bool(self.pins),
            "module": self.module is not None,
            "solver": self.solver != "auto",
            "constraints": self.constraints != Constraints(),
            "pipeline/cuts": bool(self.pipeline.cuts),
            "pipeline/layers": bool(self.pipeline.layers),
            "recompute/blocks": self.recompute.blocks is not None,
        }
        for field, is_given in others.items():
            if is_given:
                raise RequestError(
                    f"the search for the target {self.target} chooses among the strategies of the "
                    f"framework, which {field} does not restrict. Leave one of the two out",
                    pointer=f"/{field}",
                )
        return self

    @property
    def wishes(self) -> Wishes:
        """The options with the default time limit, as a plan records them."""
        values = {name: getattr(self, name) for name in Wishes.model_fields}
        options = Wishes.model_construct(**values)
        return options.like(budget=self.budget.like(seconds=BUDGET_S))
