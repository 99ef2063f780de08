"""Simulations: a plan's step as events on streams. Records beside a plan, outside its id."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from meshwright.schema.errors import InvalidInput, PlanError
from meshwright.schema.model import Document, Model, Ns, Number

Waited = Literal["activation", "parameter", "gradient", "host", "pipeline"]


class RankStep(Model):
    """One step of a device of one pipeline rank; all of it but the capacity is simulated.

    The times add up to the step: compute_ns, the time in which compute waits for each kind of
    traffic (pipeline: transfers between stages; host: links to hosts and
    their work), and bubble_ns, in which it waits for other ranks.
    communication_ns: how long collectives run, hidden or not. static_bytes: parameters, gradients,
    optimizer state, and buffers of transfers between stages. saved_bytes: the most that is saved
    for backward passes at one time; working_bytes: the most that else comes and goes; peak_bytes:
    of all together, first at peak_ns.
    """

    rank: int
    stages: tuple[int, ...]
    compute_ns: Ns
    exposed_ns: dict[Waited, Number]
    bubble_ns: Ns
    communication_ns: dict[Waited, Number]
    static_bytes: int
    saved_bytes: int
    working_bytes: int
    peak_bytes: int
    peak_ns: Ns
    capacity_bytes: int


class Exposure(Model):
    """Collectives of one name, op or tensor, that compute waited for, over a step and all ranks."""

    name: str
    what: str
    traffic: Waited
    waited_ns: Ns
    ns: Ns


class Simulation(Document):
    """What running a plan's step, task by task, showed.

    predicted_ns: the plan's own step, in closed form.
    tasks: how many were run. exposures: those that were waited for longest, the longest first.
    """

    prefix: ClassVar[str] = "sim"
    error: ClassVar[type[InvalidInput]] = PlanError

    schema_version: Literal[1] = 1
    plan: str
    step_ns: Ns
    predicted_ns: Ns
    tasks: int = Field(ge=0)
    ranks: tuple[RankStep, ...]
    exposures: tuple[Exposure, ...] = ()
