"""What is wanted of a plan: all that a request says beside its documents."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from meshwright.schema.constraints import Constraints, OptimizerParallel
from meshwright.schema.degrees import Degrees
from meshwright.schema.errors import RequestError
from meshwright.schema.model import Model, Number, Whole
from meshwright.schema.pin import Pin
from meshwright.schema.pipeline import Pipeline
from meshwright.schema.recompute import Recompute
from meshwright.schema.within import said_where

MAX_BUDGET_S = 3600.0  # chosen
MAX_PINS = 1000  # chosen: every pin is held against every op's name before a search is queued


class Budget(Model):
    """Limits of a search. Where time runs out the best plan so far is the answer.

    max_axes: meshes of so many axes are searched. Each one more takes about ten times as long.
    simplicity: of the plans that cost at most this share more than the best found, the one with the
    fewest re-layouts, and repeated layers most alike, is the answer.
    """

    seconds: Number | None = Field(default=None, gt=0, le=MAX_BUDGET_S)
    max_axes: Whole = Field(default=3, ge=1, le=4)
    simplicity: Number = Field(default=0.005, ge=0, le=0.1)


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


class Wishes(Model):
    """What is wanted of a plan.

    module: only ops whose name or module path matches this glob are searched; all others keep their
    pins, or are data parallel.
    rest: how the search `semi_auto` settles ops without pins.
    degrees: a strategy that is stated, for each pipeline rank: what it leaves open is settled at
    the least cost, and it is answered whether it fits or not.
    """

    pins: tuple[Pin, ...] = Field(default=(), max_length=MAX_PINS)
    solver: Solver = "auto"
    rest: Rest = "data_parallel"
    constraints: Constraints = Constraints()
    pipeline: Pipeline = Pipeline()
    degrees: Degrees | None = None
    recompute: Recompute = Recompute()
    module: str | None = Field(default=None, min_length=1, max_length=512)
    budget: Budget = Budget()

    _said_where = field_validator(
        "pins", "constraints", "pipeline", "degrees", "recompute", mode="wrap"
    )(said_where)

    @model_validator(mode="after")
    def _states_all_or_nothing(self) -> Wishes:
        if self.degrees is None:
            return self
        if self.pipeline.ranks is None:
            raise RequestError(
                "a strategy that is stated has a number of pipeline ranks; 1 for none",
                pointer="/pipeline/ranks",
            )
        said = self.constraints.optimizer_parallel or OptimizerParallel()
        level = said.level
        if level not in (None, self.degrees.zero):
            raise RequestError(
                f"degrees state zero {self.degrees.zero}, optimizer_parallel level {level}: leave "
                "the level out",
                pointer="/constraints/optimizer_parallel/level",
            )
        if said.shard_size is not None and self.degrees.zero == 0:
            raise RequestError(
                f"optimizer_parallel: shard_size {said.shard_size} says over how many devices "
                "parameters are in shards, and degrees state zero 0: nothing is; state zero 1 to 3",
                pointer="/constraints/optimizer_parallel/shard_size",
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
    def wishes(self) -> Wishes:
        """These alone, without the clock: what a plan says it was found for."""
        found = Wishes.model_construct(**{own: getattr(self, own) for own in Wishes.model_fields})
        return found.like(budget=self.budget.like(seconds=None))
