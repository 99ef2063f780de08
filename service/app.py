"""The application: everything under one roof."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import Depends, FastAPI

from service import openapi, problems
from service.agents import Agents
from service.authentication import Authentication
from service.compression import Compression
from service.database import Database
from service.drawings import Drawings
from service.explanations import Explanations
from service.guard import Guard
from service.hosts import Hosts
from service.idempotency import Idempotency
from service.inspected import Inspected
from service.jobs import Jobs
from service.keys import Keys
from service.leases import Leases
from service.limits import Buffer
from service.logs import log_changes
from service.metrics import Metrics
from service.parameters import check_parameters
from service.plan_views import PlanViews
from service.pruner import Pruner
from service.requests import Requests
from service.retention import Retention
from service.routes import (
    agents,
    alternatives,
    asked,
    calibrations,
    caller,
    comparisons,
    events,
    explanations,
    exports,
    graphs,
    health,
    jobs,
    keys,
    labels,
    layout,
    measurements,
    memory,
    metrics,
    observations,
    overview,
    pages,
    plan,
    plans,
    redistributions,
    samples,
    setups,
    simulations,
    strategies,
    topologies,
)
from service.settings import Settings
from service.state import State
from service.unchanged import Unchanged
from service.waits import Waits
from service.worker import Worker


def create_app(settings: Settings | None = None, *, planner: str | None = None) -> FastAPI:
    """The service. The database is brought up to date, and the workers run, while the app does.

    planner: over the one in the settings.
    """
    settings = settings or Settings()
    if planner is not None:
        settings = settings.model_copy(update={"planner": planner})
    app = FastAPI(
        title="Meshwright",
        version=version("meshwright-server"),
        description="Plans for distributed training.",
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
    )
    service = build(settings)
    app.state.service = service
    resources = (
        plan, plans, asked, overview, strategies, layout, memory, alternatives, explanations,
        labels, comparisons, observations, redistributions, simulations, exports, graphs,
        topologies, setups, calibrations, samples, measurements, agents, jobs, events, keys,
        caller, health, metrics,
    )  # fmt: skip
    for resource in resources:
        app.include_router(resource.router, dependencies=[Depends(check_parameters)])
    app.include_router(pages.router)  # the query of a page is the page's own
    app.add_middleware(Unchanged, shelves=service.shelves)
    app.add_middleware(Compression)
    app.add_middleware(
        Guard,
        hosts=Hosts(settings.host, settings.allowed_hosts),
        authentication=service.authentication,
    )
    app.add_middleware(Requests, metrics=service.metrics)  # the last one is the outermost
    problems.install(app)
    openapi.install(app)
    return app


def build(settings: Settings) -> State:
    """What the API and workers share, nothing started."""
    database = Database(settings.database)
    registered = Agents(database, silent_s=settings.agent_silent_s)
    leases = Leases(
        database, lease_s=settings.lease_s, max_losses=settings.max_losses, agents=registered
    )
    metrics_ = Metrics(database, settings)
    log_changes(database)
    workers = tuple(Worker(database, leases, settings, metrics_) for _ in range(settings.workers))
    keys = Keys(database)
    jobs_ = Jobs(database, lease_s=settings.lease_s, max_jobs=settings.max_jobs)
    pruner = Pruner(Retention(database, settings), settings.prune_every_s, metrics_)
    views = PlanViews(database, settings)
    return State(
        settings, database, keys, Authentication(keys), jobs_, registered, leases, workers,
        metrics_, pruner, Inspected(database), views, Drawings(views),
        Explanations(database, settings), Buffer(settings.max_buffer_bytes),
        Waits(settings.max_waits), Idempotency(database, kept_s=settings.idempotency_s),
    )  # fmt: skip


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: State = app.state.service
    service.database.open()
    service.start()
    try:
        yield
    finally:
        service.stop()
