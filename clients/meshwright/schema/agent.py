"""Agents: processes that measure, the topology they detect, and the requests to them."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from meshwright.schema.errors import InvalidInput
from meshwright.schema.model import Document, Line, Model, Number, Whole
from meshwright.schema.request import Progress
from meshwright.schema.samples import Backend, Samples
from meshwright.schema.sizes import MAX_SIZE
from meshwright.schema.topology import MAX_DEVICES

MAX_ATTEMPT = 2**31 - 1  # the largest integer of every database
MAX_SECONDS = 86400.0  # chosen: a day


class FoundLevel(Model):
    """A level of the topology as an agent detects it, before any measurement."""

    name: Line = Field(description="The name of the level.")
    size: Whole = Field(ge=1, le=MAX_DEVICES, description="The number of units of the level.")
    link: Line = Field(description="The kind of the link between the units.")
    bytes_per_s: Number | None = Field(
        default=None,
        gt=0,
        description="The bandwidth of one device's share of the link in one direction, in bytes "
        "per second. None if no source states it.",
    )
    source: Line = Field(description="The source of the numbers, and which of them are guesses.")


class Agent(Document):
    """A group of measurement processes that waits for work. Its first process talks to the service.

    An agent that restarts with the same content has the same id.
    """

    prefix: ClassVar[str] = "agent"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    name: Line = Field(description="The name of the agent.")
    backend: Backend = Field(description="The communication library that the agent measures.")
    hosts: tuple[Line, ...] = Field(
        min_length=1, description="The names of the hosts on which the processes run."
    )
    device: Line = Field(description="The name of the device as its driver reports it.")
    devices: Whole = Field(
        ge=1, le=MAX_DEVICES, description="The number of devices. Each process has one."
    )
    levels: tuple[FoundLevel, ...] = Field(
        default=(), description="The levels of the topology that the agent detected, slowest first."
    )
    notes: tuple[Line, ...] = Field(
        default=(), description="Remarks on the detected topology, in sentences."
    )


class Measure(Document):
    """A request for a measurement by an agent."""

    prefix: ClassVar[str] = "measure"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = Field(default=1, description="The version of the schema.")
    agent: Line | None = Field(
        default=None,
        description="The id of the agent that measures. None: the first free agent of the backend.",
    )
    backend: Backend | None = Field(
        default=None, description="The communication library to measure. None: any."
    )
    seconds: Number = Field(
        default=120,
        ge=1,
        le=MAX_SECONDS,
        description="The time budget of the measurement, in seconds, as in `meshwright agent`.",
    )
    largest: Whole | None = Field(
        default=None,
        ge=256,
        le=MAX_SIZE,
        description="The largest matrix dimension to measure, as in `meshwright agent`. None: the "
        "agent's default.",
    )
    largest_bytes: Whole | None = Field(
        default=None,
        ge=1024,
        le=MAX_SIZE,
        description="The largest message to measure, in bytes, as in `meshwright agent`. None: "
        "the agent's default.",
    )


class Heartbeat(Document):
    """A heartbeat of an agent. During a measurement it names the attempt and its progress."""

    prefix: ClassVar[str] = "heartbeat"

    measurement: Line | None = Field(
        default=None,
        description="The id of the measurement that the agent runs. None if the agent is idle.",
    )
    attempt: Whole | None = Field(
        default=None,
        ge=1,
        le=MAX_ATTEMPT,
        description="The number of the attempt at the measurement. None if the agent is idle.",
    )
    progress: Progress | None = Field(
        default=None, description="The progress of the measurement, if the agent reports it."
    )

    @model_validator(mode="after")
    def _check(self) -> Heartbeat:
        if (self.measurement is None) != (self.attempt is None):
            raise InvalidInput("a heartbeat names a measurement and its attempt, or neither")
        return self


class Results(Document):
    """The outcome of an attempt at a measurement: exactly one of four."""

    prefix: ClassVar[str] = "results"

    attempt: Whole = Field(ge=1, le=MAX_ATTEMPT, description="The number of the attempt.")
    samples: Samples | None = Field(default=None, description="The measured samples.")
    problem: Line | None = Field(
        default=None, description="The reason for which this measurement can never succeed."
    )
    lost: Line | None = Field(
        default=None,
        description="The reason for which this attempt ended. Another attempt can succeed.",
    )
    released: Literal[True] | None = Field(
        default=None, description="True if the agent stops without an error."
    )

    @model_validator(mode="after")
    def _check(self) -> Results:
        outcomes = (self.samples, self.problem, self.lost, self.released)
        if sum(outcome is not None for outcome in outcomes) != 1:
            raise InvalidInput("results are one of samples, problem, lost, released")
        return self
