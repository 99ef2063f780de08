"""What is done in a step, task by task: work on the compute stream, collectives on links.

A *section* is what a stage does in one pass over one microbatch, or once a step; sections are
written once and run as often as the schedule says. A task needs others of its own section, of
another section over the same microbatch, or of a neighbouring stage's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, NamedTuple


class Kind(IntEnum):
    """What a task is for. Of those that share a link, the lower number goes first."""

    COMPUTE = 0
    ACTIVATION = 1
    PARAMETER = 2
    GRADIENT = 3
    HOST = 4
    PIPELINE = 5


class HostLink(IntEnum):
    """Streams beside the levels of links: what goes to the host, is done there and comes back."""

    DOWN = 0
    WORK = 1
    UP = 2


class SectionKind(IntEnum):
    """The sections of a stage: passes over a microbatch, then what is done once a step.

    B: the whole backward pass, where the schedule splits it I and W. SPREAD: updated parameters to
    where they rest. REDUCE: gradients of the whole step. UPDATE: the optimizer.
    """

    F = 0
    B = 1
    I = 2  # noqa: E741  # the field's letter
    W = 3
    SPREAD = 4
    REDUCE = 5
    UPDATE = 6

    @property
    def is_pass(self) -> bool:
        return self <= SectionKind.W


class Need(NamedTuple):
    """Task `number` of a section, of the stage itself or of one `steps` further on."""

    part: SectionKind
    number: int
    steps: int = 0


@dataclass(frozen=True, slots=True)
class StreamTask:
    """name: of an op or a tensor. what: a collective, or a half of a pass. link: the position of
    the slowest level that is crossed, or, of kind HOST, which of its streams."""

    name: str
    what: str
    kind: Kind
    ns: float
    link: int = -1
    payload_bytes: int = 0
    axes: tuple[str, ...] = ()


@dataclass(slots=True)
class Gather:
    """A parameter that is gathered for its readers: its first task, and the last that reads it."""

    first: int
    reader: int
    bytes: int


Held = Literal["saved", "working", "gathered"]


class MemoryChange(NamedTuple):
    """Bytes held from the begin of a task, or (negative) until its end; gathered: of parameters."""

    number: int
    bytes: int
    held: Held


@dataclass(slots=True)
class Section:
    """Tasks in the order in which they are issued. gathers: at most one for each task.

    buffers_bytes: of transfers between stages, all the time; of a stage's forward section. owners:
    the op (by position) for whose sake each task is; owner: of those that come next.
    """

    part: SectionKind
    tasks: list[StreamTask] = field(default_factory=list)
    needs: list[tuple[Need, ...]] = field(default_factory=list)
    gathers: list[Gather] = field(default_factory=list)
    holdings: list[MemoryChange] = field(default_factory=list)
    buffers_bytes: int = 0
    owners: list[int] = field(default_factory=list)
    owner: int = -1

    @property
    def transfers(self) -> int:
        """How many of the tasks, the last ones, go to another stage."""
        return sum(task.kind is Kind.PIPELINE for task in self.tasks)

    @property
    def first_transfer(self) -> int:
        return len(self.tasks) - self.transfers

    def add(self, task: StreamTask, needs: Iterable[Need] = ()) -> Need:
        """Issue a task; the need for it."""
        self.tasks.append(task)
        self.needs.append(tuple(dict.fromkeys(needs)))
        self.owners.append(self.owner)
        return Need(self.part, len(self.tasks) - 1)

    def send(self, name: str, what: str, ns: float, made: Iterable[Need]) -> None:
        """Issue a transfer to another stage, of what is made: it goes when all work of the pass
        before it is done, as Megatron-LM and torch.distributed.pipelining send."""
        last = [n for n, task in enumerate(self.tasks) if task.kind is Kind.COMPUTE][-1:]
        self.add(
            StreamTask(name, what, Kind.PIPELINE, ns), (*made, *(Need(self.part, n) for n in last))
        )

    def chain(self, tasks: Sequence[StreamTask], needs: Sequence[Need]) -> tuple[Need, ...]:
        """Tasks one after the other; what has to be done for the last to be. Nothing for none."""
        done = tuple(needs)
        for task in tasks:
            done = (self.add(task, done),)
        return done
