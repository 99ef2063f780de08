"""What the endpoints share: settings, database, keys, jobs, agents, leases, workers, and so on."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Request

from service.agents import Agents
from service.authentication import Authentication
from service.database import Database
from service.drawings import Drawings
from service.explanations import Explanations
from service.idempotency import Idempotency
from service.inspected import Inspected
from service.jobs import Jobs
from service.keys import Keys
from service.leases import Leases
from service.limits import Buffer
from service.metrics import Metrics
from service.plan_views import PlanViews
from service.pruner import Pruner
from service.remembered import Remembered
from service.settings import Settings
from service.unchanged import Shelves
from service.waits import Waits
from service.worker import Worker


@dataclass(frozen=True, slots=True)
class State:
    """One service. Safe to share between threads."""

    settings: Settings
    database: Database
    keys: Keys
    authentication: Authentication
    jobs: Jobs
    agents: Agents
    leases: Leases
    workers: tuple[Worker, ...]
    metrics: Metrics
    pruner: Pruner
    inspected: Inspected
    views: PlanViews
    drawings: Drawings
    explanations: Explanations
    buffer: Buffer
    waits: Waits
    idempotency: Idempotency
    remembered: Remembered = field(default_factory=Remembered)
    shelves: Shelves = field(default_factory=Shelves)
    stopping: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin to work, where this process has workers."""
        for worker in self.workers:
            worker.start()
        if self.workers:
            self.pruner.start()

    def begin_to_stop(self) -> None:
        """Claim no more jobs, release those that run, and let nobody wait; returns at once."""
        self.stopping.set()
        self.pruner.begin_to_stop()
        for worker in self.workers:
            worker.begin_to_stop()

    def stop(self) -> None:
        """Stop, and wait until the jobs are released."""
        self.begin_to_stop()
        self.views.stop()
        for worker in self.workers:
            worker.stop()
        self.pruner.stop()
        self.database.close()

    def wake(self) -> None:
        """A job was queued."""
        for worker in self.workers:
            worker.wake()


def state_of(request: Request) -> State:
    return cast(State, request.app.state.service)


async def _service(request: Request) -> State:
    # async: a dependency that is not costs every request a change of threads
    return state_of(request)


Service = Annotated[State, Depends(_service)]
