"""Running plans: the current plan of a job that requests another one."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from meshwright.schema.degrees import Degrees
from meshwright.schema.errors import InvalidInput, RequestError
from meshwright.schema.migration import DEFAULT_STEPS
from meshwright.schema.model import Model, Whole
from meshwright.schema.pipeline import NO_PIPELINE, Pipeline
from meshwright.schema.plan import Plan
from meshwright.schema.setup import Setup
from meshwright.schema.topology import Topology


class Before(Model):
    """The plan that a job runs now, with the documents that it was made for."""

    error: ClassVar[type[InvalidInput]] = RequestError

    plan: Plan = Field(description="The current plan, of the request's graph.")
    topology: Topology = Field(description="The topology of the current plan.")
    setup: Setup = Field(default=Setup(), description="The training setup of the current plan.")
    steps: Whole = Field(
        default=DEFAULT_STEPS,
        ge=1,
        description="The number of remaining steps. The search minimizes the time of these steps "
        "and of the move.",
    )
    degrees: Degrees | None = Field(
        default=None,
        description="The parallel degrees of the current plan on the new devices. None: they are "
        "not compared.",
    )
    pipeline: Pipeline = Field(
        default=NO_PIPELINE,
        description="The pipeline options of the current plan on the new devices.",
    )
