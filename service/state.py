"""What the endpoints share: settings, database, keys, jobs, agents, leases, workers."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Request

from service.agents import Agents
from service.authentication import Authentication
from service.database import Database
from service.jobs import Jobs
from service.keys import Keys
from service.leases import Leases
from service.settings import Settings
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
    stopping: threading.Event = field(default_factory=threading.Event)

    def wake(self) -> None:
        """A job was queued."""
        for worker in self.workers:
            worker.wake()


def state_of(request: Request) -> State:
    return cast(State, request.app.state.service)


Service = Annotated[State, Depends(state_of)]
