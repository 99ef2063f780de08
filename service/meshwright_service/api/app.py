"""The FastAPI application, its routers and its middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version

from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import BaseRoute

from meshwright_service.api import openapi, page_documents, problem_details
from meshwright_service.api.body_memory import BodyMemory
from meshwright_service.api.long_polls import LongPolls
from meshwright_service.api.middleware.authentication import Guard
from meshwright_service.api.middleware.compression import Compression
from meshwright_service.api.middleware.host_check import Hosts
from meshwright_service.api.middleware.not_modified import NotModified
from meshwright_service.api.middleware.request_log import Requests
from meshwright_service.api.middleware.root_path import RootPath
from meshwright_service.api.query_parameters import check_parameters
from meshwright_service.api.routes import (
    agents,
    alternatives,
    calibrations,
    communication,
    comparisons,
    cost_graphs,
    costly_ops,
    create_plan,
    events,
    examples,
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
    plan_requests,
    plans,
    presets,
    redistributions,
    samples,
    schedules,
    setups,
    simulations,
    strategies,
    sweeps,
    tensor_layouts,
    topologies,
    whoami,
)
from meshwright_service.api.state import State
from meshwright_service.auth.api_keys import Keys
from meshwright_service.auth.authentication import Authentication
from meshwright_service.auth.schemes import SCHEMES, Scheme
from meshwright_service.common.settings import Settings
from meshwright_service.jobs.agents import Agents
from meshwright_service.jobs.idempotency import Idempotency
from meshwright_service.jobs.jobs import Jobs
from meshwright_service.jobs.leases import Leases
from meshwright_service.jobs.losses import RetryLimits
from meshwright_service.jobs.retention import Retention
from meshwright_service.observability.logs import log_changes
from meshwright_service.observability.process_metrics import Metrics
from meshwright_service.plan_views.explanations import Explanations
from meshwright_service.plan_views.graph_view_cache import Drawings
from meshwright_service.plan_views.plan_cache import PlanCache
from meshwright_service.plan_views.view_cache import PlanViews
from meshwright_service.store.database import Database
from meshwright_service.workers.retention_thread import Pruner
from meshwright_service.workers.worker import Worker

RESOURCES = (
    create_plan, plans, plan_requests, overview, strategies, layout, memory, alternatives,
    explanations, labels, comparisons, communication, observations, redistributions, schedules,
    simulations, tensor_layouts, costly_ops, exports,
    graphs, examples, cost_graphs, topologies, presets, setups, calibrations, samples, measurements,
    agents, jobs, events, sweeps, keys, whoami, health, metrics,
)  # fmt: skip


def create_app(
    settings: Settings | None = None,
    *,
    planner: str | None = None,
    schemes: Sequence[Scheme] = SCHEMES,
) -> FastAPI:
    """Create the application. Its lifespan opens the database and runs the workers.

    planner: overrides the setting. schemes: of authentication.
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
        redirect_slashes=False,  # behind a proxy they would name http:// and leak the key
    )
    service = build(settings, schemes)
    app.state.service = service
    app.router.routes.extend(_routes())
    app.add_middleware(NotModified, paths=service.document_paths)
    app.add_middleware(Compression)
    app.add_middleware(
        Guard,
        hosts=Hosts(settings.host, settings.allowed_hosts),
        authentication=service.authentication,
    )
    app.add_middleware(Requests, metrics=service.metrics)
    app.add_middleware(RootPath, root_path=settings.root_path)  # the last one is the outermost
    problem_details.install(app)
    openapi.install(app)
    return app


@cache
def _routes() -> Sequence[BaseRoute]:
    """The routes of all resources, which the applications of a process share.

    FastAPI analyzes the signatures of included routes at their first request: 0.3 s of a core.
    """
    router = APIRouter()
    for resource in RESOURCES:
        router.include_router(resource.router, dependencies=[Depends(check_parameters)])
    router.include_router(pages.router)  # without check_parameters: pages parse their query
    return router.routes


def build(settings: Settings, schemes: Sequence[Scheme] = SCHEMES) -> State:
    """Create the shared state of the API and the workers, without starting anything."""
    database = Database(settings.database)
    registered = Agents(database, silent_s=settings.agent_silent_s)
    tries = RetryLimits(settings.max_losses, settings.max_lapses, settings.retry_s)
    leases = Leases(database, lease_s=settings.lease_s, tries=tries, agents=registered)
    metrics_ = Metrics(database, settings)
    log_changes(database)
    workers = tuple(Worker(database, leases, settings, metrics_) for _ in range(settings.workers))
    keys = Keys(database)
    jobs_ = Jobs(database, lease_s=settings.lease_s, max_jobs=settings.max_jobs)
    pruner = Pruner(Retention(database, settings), settings.prune_every_s, metrics_)
    views = PlanViews(database, settings)
    return State(
        settings, database, keys, Authentication(keys, schemes=schemes), jobs_, registered, leases,
        workers, metrics_, pruner, PlanCache(database), views, Drawings(views),
        Explanations(database, settings), BodyMemory(settings.max_buffer_bytes),
        LongPolls(settings.max_waits), Idempotency(database, kept_s=settings.idempotency_s),
    )  # fmt: skip


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: State = app.state.service
    # a module that cannot be linked stops the start, not the first page
    page_documents.pages(service.settings.root_path)
    service.database.open()
    service.start()
    try:
        yield
    finally:
        service.begin_to_stop()
        await service.watch.close()
        service.stop()
