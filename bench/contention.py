"""`python -m bench.contention [NAME ...]`: how often collectives of a step want one link at once.

Of the examples' plans and of the published configurations as stated, simulated; percent of the
step, mean over pipeline ranks:

    queue    collectives of two purposes (activations, parameters, gradients) want one link, which
             the simulation gives to one of them at a time
    waits    an activation is ready and waits for a bucket to be through
    beside   a collective that crosses nodes and is spread inside them runs while another one runs
             inside: the simulation gives both all of the inner links
    sends    a transfer between stages runs beside a collective on the slowest level: both have all
             of the network ports
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from bench.executed import requests
from bench.timing import say
from meshwright.common.units import show_ns
from meshwright.schema import Request, Stage
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.planning.planner import plan
from meshwright_solver.simulation.step import SimulatedStep, step_of
from meshwright_solver.simulation.tasks import Kind, Section

PURPOSES = (Kind.ACTIVATION, Kind.PARAMETER, Kind.GRADIENT)
COLUMNS = ("plan", "step", "queue", "waits", "beside", "sends", "CPU s")

Mask = NDArray[np.bool_]


class Seen:
    """What the tasks of one simulated step did, as arrays."""

    def __init__(self, step: SimulatedStep) -> None:
        program, self.run = step.program, step.run
        self.step_ns, self.ranks = step.ns, program.schedule.ranks
        self.kind, self.rank = program.kind, program.rank
        rows = [
            _links(program.section(own), step.plan.stages[own.stage], step.levels[rank])
            for rank, made in enumerate(program.made)
            for own in made
        ]
        self.link, inner = np.concatenate(rows).T
        self.inner = inner.astype(np.bool_)
        lines = program.lines
        self.ready = np.where(
            np.bincount(lines.target, minlength=len(self.kind)) > 0, 0.0, self.run.starts
        )
        np.maximum.at(self.ready, lines.target, self.run.ends[lines.source])
        self.points = np.unique(np.concatenate([self.ready, self.run.starts, self.run.ends]))

    def share(self, ns: float) -> float:
        """Percent of the step, on the mean rank."""
        return 100 * ns / (self.ranks * self.step_ns)

    def queue(self) -> float:
        found = 0.0
        for rank in range(self.ranks):
            for link in np.unique(self.link[self.link >= 0]):
                own = (self.rank == rank) & (self.link == link)
                wanted = [self._covered(self.ready, own & (self.kind == kind)) for kind in PURPOSES]
                found += self._ns(np.sum(wanted, axis=0) > 1)
        return self.share(found)

    def waits(self) -> float:
        found = 0.0
        for rank in range(self.ranks):
            for link in np.unique(self.link[self.link >= 0]):
                own = (self.rank == rank) & (self.link == link)
                waiting = own & (self.kind == Kind.ACTIVATION)
                wait = self._covered(self.ready, waiting, self.run.starts)
                buckets = own & (self.kind != Kind.ACTIVATION)
                found += self._ns(wait & self._covered(self.run.starts, buckets))
        return self.share(found)

    def beside(self) -> float:
        moves, found = np.isin(self.kind, PURPOSES), 0.0
        for rank in range(self.ranks):
            own = moves & (self.rank == rank)
            for link in np.unique(self.link[own]):
                spread = self._covered(self.run.starts, own & (self.link == link) & self.inner)
                inside = self._covered(self.run.starts, own & (self.link > link))
                found += self._ns(spread & inside)
        return self.share(found)

    def sends(self) -> float:
        found = 0.0
        for rank in range(self.ranks):
            own = self.rank == rank
            crossing = own & np.isin(self.kind, PURPOSES) & (self.link == 0)
            sent = self._covered(self.run.starts, own & (self.kind == Kind.PIPELINE))
            found += self._ns(sent & self._covered(self.run.starts, crossing))
        return self.share(found)

    def _covered(self, begins: FloatArray, which: Mask, ends: FloatArray | None = None) -> Mask:
        """Between which points some of these are under way, from their begins to their ends."""
        ends = self.run.ends if ends is None else ends
        steps = np.zeros(len(self.points), dtype=np.int64)
        np.add.at(steps, np.searchsorted(self.points, begins[which]), 1)
        np.add.at(steps, np.searchsorted(self.points, ends[which]), -1)
        covered: Mask = np.cumsum(steps)[:-1] > 0
        return covered

    def _ns(self, covered: Mask) -> float:
        return float(np.diff(self.points)[covered].sum())


def _links(section: Section, stage: Stage, levels: tuple[str, ...]) -> IntArray:
    """(tasks, 2): the slowest level that each crosses, -1 for none, and whether faster ones too."""
    level_of: dict[str, int] = {axis.name: levels.index(axis.level) for axis in stage.mesh.axes}
    rows = [
        (task.link, any(level_of[axis] > task.link for axis in task.axes))
        if task.kind in PURPOSES
        else (-1, False)
        for task in section.tasks
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 2)


def row(name: str, request: Request) -> str:
    """One line of the table."""
    started = time.process_time()
    found = plan(request).plan
    if found is None:
        return f"| {name} | no plan |"
    step = step_of(found, request.graph, request.topology, request.setup, request.calibration)
    own = Seen(step)
    shares = (own.queue(), own.waits(), own.beside(), own.sends())
    cells = (name, show_ns(step.ns), *(f"{share:.1f}" for share in shares))
    return f"| {' | '.join(cells)} | {time.process_time() - started:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    say(f"| {' | '.join(COLUMNS)} |")
    say("|---" * len(COLUMNS) + "|")
    for name, request in requests():
        if name.endswith(" searched") or (given.names and name.split()[0] not in given.names):
            continue
        say(row(name, request))


if __name__ == "__main__":
    main()
