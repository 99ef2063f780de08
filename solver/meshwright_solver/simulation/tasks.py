"""Tasks of a step: work on the compute stream, collectives on links.

A *section* holds the tasks of a stage in one pass over one microbatch, or once a step. Each section
is written once and run as often as the schedule says. A task needs tasks of its own section, of
another section over the same microbatch, or of a neighboring stage's section.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from meshwright_solver.evaluation.memory.holding_tables import HoldingKind


class Kind(IntEnum):
    """The purpose of a task. On a shared link, lower numbers have precedence."""

    COMPUTE = 0
    ACTIVATION = 1
    PARAMETER = 2
    GRADIENT = 3
    HOST = 4
    PIPELINE = 5


class HostLink(IntEnum):
    """Streams of a host beside the levels of links: transfer to it, work on it, transfer back."""

    DOWN = 0
    WORK = 1
    UP = 2


class SectionKind(IntEnum):
    """The sections of a stage: passes over a microbatch (F to W), then sections once a step.

    B: the whole backward pass; a schedule that splits it has I and W instead. SPREAD: updated
    parameters to their resting layouts. REDUCE: gradients of the whole step. UPDATE: the optimizer.
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
    """A dependency on task `number` of a section, in the stage `steps` further on."""

    part: SectionKind
    number: int
    steps: int = 0


@dataclass(frozen=True, slots=True)
class StreamTask:
    """A task of a stream.

    name: of an op or a tensor. what: a collective, or a half of a pass. link: the position of the
    slowest level that the task crosses; for kind HOST, the HostLink.
    """

    name: str
    what: str
    kind: Kind
    ns: float
    link: int = -1
    payload_bytes: int = 0
    axes: tuple[str, ...] = ()


@dataclass(slots=True)
class Gather:
    """A gather of a parameter: its first task, and the last task that reads the parameter."""

    first: int
    reader: int
    bytes: int


class MemoryChange(NamedTuple):
    """Bytes allocated at the start of a task, or (negative) freed at its end.

    is_shared: held once by both half batches, where a step has such.
    """

    number: int
    bytes: int
    kind: HoldingKind
    is_shared: bool = False


@dataclass(slots=True)
class Section:
    """Tasks in issue order. gathers: at most one for each task.

    buffers_bytes: static transfer buffers between stages; set in the forward section. owners: by
    task, the position of its op; owner: that of the next tasks.
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
        """Number of transfers to another stage; they are the last tasks."""
        return sum(task.kind is Kind.PIPELINE for task in self.tasks)

    @property
    def first_transfer(self) -> int:
        return len(self.tasks) - self.transfers

    def add(self, task: StreamTask, needs: Iterable[Need] = ()) -> Need:
        """Issue a task and return the need for it."""
        self.tasks.append(task)
        self.needs.append(tuple(dict.fromkeys(needs)))
        self.owners.append(self.owner)
        return Need(self.part, len(self.tasks) - 1)

    def send(self, name: str, what: str, ns: float, needs: Iterable[Need]) -> None:
        """Issue a transfer to another stage after `needs` and the last compute task of the pass, as
        Megatron-LM and torch.distributed.pipelining do."""
        last = [n for n, task in enumerate(self.tasks) if task.kind is Kind.COMPUTE][-1:]
        self.add(
            StreamTask(name, what, Kind.PIPELINE, ns), (*needs, *(Need(self.part, n) for n in last))
        )

    def chain(self, tasks: Sequence[StreamTask], needs: Sequence[Need]) -> tuple[Need, ...]:
        """Issue tasks one after the other; return the need for the last, or `needs` for none."""
        done = tuple(needs)
        for task in tasks:
            done = (self.add(task, done),)
        return done
