"""Memory over time: what parameters take stays, what passes by is taken and given back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.identity_keys import IdentityKey, IdentityKeys
from meshwright_solver.simulation.events import TaskTimes
from meshwright_solver.simulation.task_program import TaskProgram
from meshwright_solver.simulation.tasks import Section


@dataclass(frozen=True, slots=True)
class Curve:
    """Bytes on a rank's fullest device from each time on: saved for backward passes, and working:
    what else comes and goes."""

    ns: FloatArray
    saved: IntArray
    working: IntArray

    @property
    def total(self) -> IntArray:
        return self.saved + self.working


def curve_of(program: TaskProgram, run: TaskTimes, rank: int) -> Curve:
    """Tasks that hold memory follow each other on one stream, in the order of their numbers."""
    key_of = IdentityKeys()
    known: dict[IdentityKey, _Changes] = {}
    times, changes = [np.zeros(1)], [np.zeros((1, 2), dtype=np.int64)]
    for own in program.made[rank]:
        section = program.section(own)
        if not section.holdings:
            continue
        key = key_of(section)
        if key not in known:
            known[key] = _Changes.of(section)
        change = known[key]
        tasks = own.first + change.numbers
        times.append(np.stack([run.starts[tasks], run.ends[tasks]], axis=1).ravel())
        changes.append(change.bytes)
    held = np.cumsum(np.concatenate(changes), axis=0)
    return Curve(np.concatenate(times), held[:, 0], held[:, 1])


@dataclass(frozen=True, slots=True)
class _Changes:
    """numbers: of tasks that take or give back. bytes: of each, saved and working, when it begins
    and when it ends, in turn."""

    numbers: IntArray
    bytes: IntArray

    @staticmethod
    def of(section: Section) -> _Changes:
        rows = np.array(
            [(own.number, own.bytes, own.held != "saved") for own in section.holdings],
            dtype=np.int64,
        )
        numbers, place = np.unique(rows[:, 0], return_inverse=True)
        change = np.zeros((len(numbers), 2, 2), dtype=np.int64)
        np.add.at(change, (place, (rows[:, 1] < 0).astype(np.int64), rows[:, 2]), rows[:, 1])
        return _Changes(numbers, change.reshape(-1, 2))
