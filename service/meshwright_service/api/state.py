"""The shared state of the endpoints: settings, database, keys, jobs, leases, workers, caches."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Request

from meshwright_service.api.body_memory import BodyMemory
from meshwright_service.api.job_watch import JobWatch
from meshwright_service.api.long_polls import LongPolls
from meshwright_service.api.middleware.not_modified import DocumentPaths
from meshwright_service.api.request_cache import RequestCache
from meshwright_service.auth.api_keys import Keys
from meshwright_service.auth.authentication import Authentication
from meshwright_service.common.settings import Settings
from meshwright_service.jobs.agents import Agents
from meshwright_service.jobs.idempotency import Idempotency
from meshwright_service.jobs.jobs import Jobs
from meshwright_service.jobs.leases import Leases
from meshwright_service.observability.process_metrics import Metrics
from meshwright_service.plan_views.explanations import Explanations
from meshwright_service.plan_views.graph_view_cache import Drawings
from meshwright_service.plan_views.plan_cache import PlanCache
from meshwright_service.plan_views.view_cache import PlanViews
from meshwright_service.store.database import Database
from meshwright_service.workers.retention_thread import Pruner
from meshwright_service.workers.worker import Worker


@dataclass(frozen=True, slots=True)
class State:
    """The state of one service process. Safe to share between threads."""

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
    inspected: PlanCache
    views: PlanViews
    drawings: Drawings
    explanations: Explanations
    bodies: BodyMemory
    waits: LongPolls
    idempotency: Idempotency
    requests: RequestCache = field(default_factory=RequestCache)
    document_paths: DocumentPaths = field(default_factory=DocumentPaths)
    stopping: threading.Event = field(default_factory=threading.Event)
    watch: JobWatch = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "watch", JobWatch(self.jobs, self.stopping))

    def start(self) -> None:
        """Start the workers and the retention thread, if this process has workers."""
        for worker in self.workers:
            worker.start()
        if self.workers:
            self.pruner.start()

    def begin_to_stop(self) -> None:
        """Request the stop: release the running jobs and end all waits; returns at once."""
        self.stopping.set()
        self.pruner.begin_to_stop()
        for worker in self.workers:
            worker.begin_to_stop()

    def stop(self) -> None:
        """Stop and wait until the jobs are released."""
        self.begin_to_stop()
        self.views.stop()
        for worker in self.workers:
            worker.stop()
        self.pruner.stop()
        self.database.close()

    def wake(self) -> None:
        """Let the workers poll now, because a job was queued."""
        for worker in self.workers:
            worker.wake()


def state_of(request: Request) -> State:
    return cast(State, request.app.state.service)


async def _service(request: Request) -> State:
    # async: a sync dependency costs every request a thread switch
    return state_of(request)


Service = Annotated[State, Depends(_service)]
