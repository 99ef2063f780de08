"""A training job's controller: it asks for the plan, hands each rank its part, and replans.

    python -m examples.controller graph.json.gz --topology h100-1x4 --server http://127.0.0.1:8780

The service may be away at any moment: what was fetched is kept in a folder, by rank, and a job that
begins again goes on with that. What it cannot have then is a new plan.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from meshwright.client import Client
from meshwright.common.files import read_document, write_whole
from meshwright.runtime.plan_source import PlanSource
from meshwright.schema import Graph, MeshwrightError, Plan, Progress, Setup, Topology, Unavailable
from meshwright.schema.observation import Observation
from meshwright.schema.rank_strategy import RankStrategy

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """What is trained, and on what."""

    graph: Graph
    topology: Topology | str
    setup: Setup
    steps: int = 10_000


class NoPlan(Exception):
    """Nothing fits the devices, or nobody is there to say what does."""


class Controller:
    """Of one job. connect: a client of the service; folder: where it keeps what it has."""

    def __init__(self, job: Job, connect: Callable[[], Client], folder: Path, say: Say) -> None:
        self.job = job
        self._connect = connect
        self._folder = folder
        self._say = say
        self.plan = self._kept()

    def begin(self) -> str:
        """The id of the plan that the job runs: a new one's, or of the one it ran before."""
        try:
            self._take(self.job.topology)
        except Unavailable as away:
            if self.plan is None:
                raise NoPlan(f"the service is away, and no plan was kept: {away}") from None
            self._say(f"the service is away; going on with {self.plan}")
        assert self.plan is not None
        return self.plan

    def rank(self, rank: int, world_size: int) -> RankStrategy:
        """What one rank does: from the service, or as it was kept."""
        assert self.plan is not None
        return self._source(self.plan).of_rank(rank, world_size)[0]

    def measured(self, step_ns: float, steps: int) -> float | None:
        """Report what steps took; how many times the prediction that is, if anybody listens."""
        assert self.plan is not None
        seen = Observation(plan=self.plan, step_ns=step_ns, steps=steps)
        try:
            with self._connect() as client:
                return float(client.observe(seen)["ratio"])
        except Unavailable:
            return None  # training goes on; the next report may arrive

    def lost_devices(self, left: Topology | str, steps_left: int) -> str:
        """A plan for the devices that are left, with the move there in the bill.

        Raises NoPlan where the service is away: no rank can go on with a plan for other devices.
        """
        before = self.plan
        try:
            self._take(left, from_plan=before, steps=steps_left)
        except Unavailable as away:
            raise NoPlan(f"the devices have changed, and the service is away: {away}") from None
        self._say(f"moved from {before} to {self.plan}")
        assert self.plan is not None
        return self.plan

    def _take(
        self, topology: Topology | str, *, from_plan: str | None = None, steps: int | None = None
    ) -> None:
        with self._connect() as client:
            answer = client.plan(
                self.job.graph, topology, setup=self.job.setup, from_plan=from_plan, steps=steps,
                on_progress=self._told,
            )  # fmt: skip
            if answer.plan is None:
                assert answer.infeasible is not None
                raise NoPlan(answer.infeasible.detail)
        self._keep(answer.plan)

    def _keep(self, plan: Plan) -> None:
        """Every rank's part, while the service is there; the plan's id last: then all is whole."""
        world_size = max(stage.ranks_from + stage.mesh.device_count for stage in plan.stages)
        for rank in range(world_size):
            self._source(plan.id).of_rank(rank, world_size)
        write_whole(self._folder / "plan.json", json.dumps({"plan": plan.id}))
        self.plan = plan.id

    def _source(self, plan: str) -> PlanSource:
        with self._connect() as client:
            url = client.url
        return PlanSource(plan, server=url, cache=self._folder, connect=lambda _: self._connect())

    def _kept(self) -> str | None:
        try:
            return str(json.loads((self._folder / "plan.json").read_text())["plan"])
        except (OSError, ValueError, KeyError):
            return None

    def _told(self, progress: Progress) -> None:
        self._say(f"{progress.phase} {progress.done}/{progress.total}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.controller", description=__doc__)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--topology", required=True)
    parser.add_argument("--server", required=True)
    parser.add_argument("--folder", type=Path, default=Path("controller"))
    given = parser.parse_args()
    job = Job(read_document(given.graph, Graph), given.topology, Setup())
    try:
        controller = Controller(job, lambda: Client(given.server), given.folder, _say)
        _say(f"the job runs {controller.begin()}")
    except (NoPlan, MeshwrightError) as failure:
        raise SystemExit(f"no plan: {failure}") from None


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
