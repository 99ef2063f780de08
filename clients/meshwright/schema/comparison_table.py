"""Comparison of several plans: a table with one column for each plan."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.model import Document, Model, Number

MOST_PLANS = 8  # chosen: columns that a page has room for

Unit = Literal["ns", "bytes", "share", "count", "per_s"]


class PlanColumn(Model):
    """A plan of the table."""

    plan: str = Field(description="The id of the plan.")
    name: str = Field(description="The name of the plan.")
    fits: bool = Field(description="Whether the peak memory is within the memory of the device.")
    outcome: Literal["optimal", "feasible"] = Field(description="The outcome of the search.")


class TextRow(Model):
    """A property in which plans may differ, with its values as text by plan."""

    name: str = Field(description="The property, such as `degrees` or `setup global_batch`.")
    values: tuple[str, ...] = Field(description="The values, in the order of the plans.")


class FigureRow(Model):
    """A figure of the plans, in the order of the plans."""

    name: str = Field(description="The figure, such as `step` or `waits for gradients`.")
    group: Literal["speed", "step", "memory", "size"] = Field(
        description="The subject: throughput, the parts of the step, the parts of the memory, or "
        "the size of the job."
    )
    unit: Unit = Field(description="The unit. `share`: 0 to 1. `per_s`: for each second.")
    better: Literal["less", "more"] | None = Field(
        description="The direction of better values. None: neither is better."
    )
    values: tuple[Number | None, ...] = Field(description="The values. None: unknown.")
    changes: tuple[Number | None, ...] = Field(
        description="The differences from the baseline. None where one of the values is unknown."
    )
    best: tuple[int, ...] = Field(
        description="The positions of the plans with the best value, among the plans that fit if "
        "one fits. Empty if all of them have the same value, or neither is better."
    )


class ComparisonTable(Document):
    """A table of several plans: figures, choices and the differences of their requests."""

    prefix: ClassVar[str] = "cmptable"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    plans: tuple[PlanColumn, ...] = Field(
        min_length=2, max_length=MOST_PLANS, description="The plans."
    )
    baseline: int = Field(
        ge=0, description="The position of the plan from which differences are computed."
    )
    requested: tuple[TextRow, ...] = Field(description="The options in which the requests differ.")
    chosen: tuple[TextRow, ...] = Field(
        description="The degrees, meshes, schedules and recomputation of the plans."
    )
    figures: tuple[FigureRow, ...] = Field(description="The figures.")
