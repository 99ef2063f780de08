"""The plan that a job runs when it asks for another one."""

from __future__ import annotations

from pydantic import Field

from meshwright.schema.degrees import Degrees
from meshwright.schema.model import Model, Whole
from meshwright.schema.move import DEFAULT_STEPS
from meshwright.schema.pipeline import Pipeline
from meshwright.schema.plan import Plan
from meshwright.schema.setup import Setup
from meshwright.schema.topology import Topology


class Before(Model):
    """A plan of the request's graph, with the topology and the setup that it was made for.

    steps: so many are left to train; the plan with the least time for these and the move wins.
    degrees, pipeline: its way, for the new devices; without degrees it has none to keep.
    """

    plan: Plan
    topology: Topology
    setup: Setup = Setup()
    steps: Whole = Field(default=DEFAULT_STEPS, ge=1)
    degrees: Degrees | None = None
    pipeline: Pipeline = Pipeline()
