"""The transient memory of a rank over time, from the tasks that allocate and free it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.identity_keys import IdentityKey, IdentityKeys
from meshwright_solver.evaluation.memory.holding_tables import HoldingKind
from meshwright_solver.simulation.events import TaskTimes
from meshwright_solver.simulation.task_program import TaskProgram
from meshwright_solver.simulation.tasks import Section, StreamTask


@dataclass(frozen=True, slots=True)
class Curve:
    """Transient memory of a rank's fullest device, bytes from each time on.

    held: (times, kinds), by `HoldingKind`. tasks: the task that starts or ends at each time, or -1.
    """

    ns: FloatArray
    held: IntArray
    tasks: IntArray

    @property
    def saved(self) -> IntArray:
        """Activations for backward passes."""
        return self.of(HoldingKind.SAVED)

    @property
    def working(self) -> IntArray:
        """All other transient memory."""
        return self.total - self.saved

    @property
    def total(self) -> IntArray:
        total: IntArray = self.held.sum(axis=1)
        return total

    @property
    def peak(self) -> int:
        """The position of the first peak."""
        return int(np.argmax(self.total))

    def of(self, kind: HoldingKind) -> IntArray:
        return self.held[:, kind]


_PASS_TEXTS = {"forward": "forward of", "again": "recomputing", "update": "update by"}


def task_text(task: StreamTask) -> str:
    """A compute task in words, as in the moments of a plan's peaks."""
    return f"{_PASS_TEXTS.get(task.what, 'backward of')} {task.name}"


def curve_of(program: TaskProgram, run: TaskTimes, rank: int) -> Curve:
    """The transient memory of a rank.

    Tasks that hold memory run on one stream in the order of their numbers, so that times ascend.
    """
    key_of = IdentityKeys()
    known: dict[IdentityKey, _Changes] = {}
    times, changes = [np.zeros(1)], [np.zeros((1, len(HoldingKind)), dtype=np.int64)]
    numbers = [np.full(1, -1, dtype=np.int64)]
    for place in program.made[rank]:
        section = program.section(place)
        if not section.holdings:
            continue
        key = key_of(section)
        if key not in known:
            known[key] = _Changes.of(section)
        change = known[key]
        tasks = place.first + change.numbers
        times.append(np.stack([run.starts[tasks], run.ends[tasks]], axis=1).ravel())
        changes.append(change.bytes)
        numbers.append(np.repeat(tasks, 2))
    held = np.cumsum(np.concatenate(changes), axis=0)
    return Curve(np.concatenate(times), held, np.concatenate(numbers))


@dataclass(frozen=True, slots=True)
class _Changes:
    """Allocations and frees of a section.

    numbers: of the tasks that allocate or free. bytes: (2 * tasks, kinds), two rows a task, at its
    start and at its end; the columns are those of `HoldingKind`.
    """

    numbers: IntArray
    bytes: IntArray

    @staticmethod
    def of(section: Section) -> _Changes:
        rows = np.array(
            [(holding.number, holding.bytes, int(holding.kind)) for holding in section.holdings],
            dtype=np.int64,
        )
        numbers, place = np.unique(rows[:, 0], return_inverse=True)
        change = np.zeros((len(numbers), 2, len(HoldingKind)), dtype=np.int64)
        np.add.at(change, (place, (rows[:, 1] < 0).astype(np.int64), rows[:, 2]), rows[:, 1])
        return _Changes(numbers, change.reshape(-1, len(HoldingKind)))
