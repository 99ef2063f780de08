"""Agents: who can be asked to measure, what they found around them, and what they are asked."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from meshwright.schema.errors import InvalidInput
from meshwright.schema.model import Document, Line, Model, Number, Whole
from meshwright.schema.request import Progress
from meshwright.schema.samples import Backend, Samples
from meshwright.schema.sizes import MAX_SIZE
from meshwright.schema.topology import MAX_DEVICES

MAX_ATTEMPT = 2**31 - 1  # what every database counts to
MAX_SECONDS = 86400.0  # chosen: nobody measures for more than a day


class FoundLevel(Model):
    """A level of the topology as an agent found it, before anything is measured.

    bytes_per_s: one direction of one device's share; None where nothing says it. source: where the
    numbers are from, and what of them is guessed.
    """

    name: Line
    size: Whole = Field(ge=1, le=MAX_DEVICES)
    link: Line
    bytes_per_s: Number | None = Field(default=None, gt=0)
    source: Line


class Agent(Document):
    """Processes of one measurement that wait for work; the first of them talks to the service.

    devices: one a process. device: its own name. The same agent begun again has the same id.
    """

    prefix: ClassVar[str] = "agent"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = 1
    name: Line
    backend: Backend
    hosts: tuple[Line, ...] = Field(min_length=1)
    device: Line
    devices: Whole = Field(ge=1, le=MAX_DEVICES)
    levels: tuple[FoundLevel, ...] = ()
    notes: tuple[Line, ...] = ()


class Measure(Document):
    """A wish that agents measure: this one, or the first free one of the backend, or any.

    seconds, largest, largest_bytes: as of `meshwright agent`.
    """

    prefix: ClassVar[str] = "measure"
    error: ClassVar[type[InvalidInput]] = InvalidInput

    schema_version: Literal[1] = 1
    agent: Line | None = None
    backend: Backend | None = None
    seconds: Number = Field(default=120, ge=1, le=MAX_SECONDS)
    largest: Whole | None = Field(default=None, ge=256, le=MAX_SIZE)
    largest_bytes: Whole | None = Field(default=None, ge=1024, le=MAX_SIZE)


class Heartbeat(Document):
    """A sign of life; of an agent that measures with what it holds, and how far it is."""

    prefix: ClassVar[str] = "heartbeat"

    measurement: Line | None = None
    attempt: Whole | None = Field(default=None, ge=1, le=MAX_ATTEMPT)
    progress: Progress | None = None

    @model_validator(mode="after")
    def _valid(self) -> Heartbeat:
        if (self.measurement is None) != (self.attempt is None):
            raise InvalidInput("a heartbeat names a measurement and its attempt, or neither")
        return self


class Results(Document):
    """How an attempt at a measurement ended, exactly one of four ways.

    samples: what was measured. problem: why it can never be. lost: why this attempt could not go
    on; another may. released: the agent stops, and nothing is wrong.
    """

    prefix: ClassVar[str] = "results"

    attempt: Whole = Field(ge=1, le=MAX_ATTEMPT)
    samples: Samples | None = None
    problem: Line | None = None
    lost: Line | None = None
    released: Literal[True] | None = None

    @model_validator(mode="after")
    def _valid(self) -> Results:
        said = (self.samples, self.problem, self.lost, self.released)
        if sum(own is not None for own in said) != 1:
            raise InvalidInput("results are one of samples, problem, lost, released")
        return self
