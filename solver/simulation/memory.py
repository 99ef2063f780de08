"""Memory over time: what parameters take stays, what passes by is taken and given back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.simulation.events import Run
from solver.simulation.program import Program
from solver.states import FloatArray


@dataclass(frozen=True, slots=True)
class Curve:
    """Bytes on a rank's fullest device from each time on: saved for backward passes, and working:
    what else is alive (results and gradients until their last reader, gathered parameters)."""

    ns: FloatArray
    saved: FloatArray
    working: FloatArray

    @property
    def total(self) -> FloatArray:
        return self.saved + self.working


def curve_of(program: Program, run: Run, rank: int) -> Curve:
    """What a task takes it takes when it starts, and gives back when it ends.

    A gathered parameter is there from the begin of its gather to the end of its last reader. The
    buffers of other collectives are not counted.
    """
    times, changes = [0.0], [(0.0, 0.0)]
    for own in program.made[rank]:
        section = program.section(own)
        for holding in section.holdings:
            task = own.first + holding.number
            times.append(float(run.starts[task] if holding.bytes > 0 else run.ends[task]))
            is_saved = holding.held == "saved"
            changes.append((holding.bytes, 0.0) if is_saved else (0.0, holding.bytes))
        for gather in section.gathers:
            first, last = own.first + gather.first, own.first + gather.reader
            times += [float(run.starts[first]), float(run.ends[last])]
            changes += [(0.0, float(gather.bytes)), (0.0, -float(gather.bytes))]
    at, change = np.array(times), np.array(changes)
    # what ends at a time is given back before others take theirs
    order = np.lexsort((change.sum(axis=1), at))
    held = np.maximum(0.0, np.cumsum(change[order], axis=0))
    return Curve(at[order], held[:, 0], held[:, 1])
