"""Prometheus metrics of one process; `store_metrics` adds those of the store.

No label names a tenant, a key, a job or a document, because their number is unbounded.
docs/how-to/operations.md lists all metrics; a test compares the list.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from meshwright_service.common.settings import Settings
from meshwright_service.jobs.events import JobChange
from meshwright_service.jobs.kinds import KINDS
from meshwright_service.jobs.retention import WHAT
from meshwright_service.observability.store_metrics import StoreMetrics
from meshwright_service.store.database import Database

disable_created_metrics()  # type: ignore[no-untyped-call]  # `_created` series, unused

REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)  # chosen
JOB_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 900, 1800)  # chosen: solve_s is 900
FINAL = ("succeeded", "failed", "cancelled")


class Metrics:
    """The metrics of one process. Safe to share between threads."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "meshwright_http_requests", "Requests that were answered",
            ("method", "route", "status"), registry=registry,
        )  # fmt: skip
        self.request_seconds = Histogram(
            "meshwright_http_request_seconds", "From a request to the first byte of its answer",
            ("method", "route"), buckets=REQUEST_S, registry=registry,
        )  # fmt: skip
        self.requests_running = Gauge(
            "meshwright_http_requests_running",
            "Requests that are being answered",
            registry=registry,
        )
        self.plan_requests = Counter(
            "meshwright_plan_requests", "Requests for plans, by the source of the answer",
            ("answer",), registry=registry,
        )  # fmt: skip
        self.cost_graph_requests = Counter(
            "meshwright_cost_graph_requests", "Requests for solutions, by the source of the answer",
            ("answer",), registry=registry,
        )  # fmt: skip
        self._changes = Counter(
            "meshwright_job_changes", "State changes of jobs, by the new state",
            ("kind", "state"), registry=registry,
        )  # fmt: skip
        self._ended = Counter(
            "meshwright_jobs_ended", "Jobs that ended, by outcome or problem",
            ("kind", "state", "outcome"), registry=registry,
        )  # fmt: skip
        self._lost = Counter(
            "meshwright_job_losses",
            "Attempts that ended without an answer",
            ("kind",),
            registry=registry,
        )
        self._waited = Histogram(
            "meshwright_job_wait_seconds", "From the submission to the first attempt",
            ("kind",), buckets=JOB_S, registry=registry,
        )  # fmt: skip
        self._ran = Histogram(
            "meshwright_job_seconds", "From the first attempt to the end",
            ("kind", "state"), buckets=JOB_S, registry=registry,
        )  # fmt: skip
        self.search_seconds = Histogram(
            "meshwright_search_seconds",
            "Duration of search processes",
            buckets=JOB_S,
            registry=registry,
        )
        self.solve_seconds = Histogram(
            "meshwright_solve_seconds", "Duration of processes that solve cost graphs",
            buckets=JOB_S, registry=registry,
        )  # fmt: skip
        self.verification_seconds = Histogram(
            "meshwright_verification_seconds", "Duration of processes that execute plans",
            buckets=JOB_S, registry=registry,
        )  # fmt: skip
        self._verdicts = Counter(
            "meshwright_verifications", "Plans that were executed", ("outcome",), registry=registry
        )
        self.pruned = Counter(
            "meshwright_pruned",
            "Rows that retention deleted",
            ("what",),
            registry=registry,
        )
        self.workers_busy = Gauge(
            "meshwright_workers_busy", "Workers that have a job", registry=registry
        )
        Gauge("meshwright_workers", "Workers of this process", registry=registry).set(
            settings.workers
        )
        Gauge(
            "meshwright_build_info",
            "1, labeled with the versions",
            ("version", "python", "store"),
            registry=registry,
        ).labels(version("meshwright-server"), platform.python_version(), database.dialect).set(1)
        ProcessCollector(registry=registry)
        registry.register(StoreMetrics(database, settings))
        self._begin_at_zero()
        database.listen(self._count_change)

    def _begin_at_zero(self) -> None:
        """Create the counters at 0: rate() misses the increase to the first value of a counter."""
        for answer in ("stored", "joined", "queued"):
            self.plan_requests.labels(answer)
            self.cost_graph_requests.labels(answer)
        for kind in KINDS:
            self._lost.labels(kind)
            for state in ("queued", "running", *FINAL):
                self._changes.labels(kind, state)
        for what in WHAT:
            self.pruned.labels(what)
        for outcome in ("verified", "failed", "not verifiable"):
            self._verdicts.labels(outcome)

    def _count_change(self, change: object) -> None:
        if not isinstance(change, JobChange):
            return
        self._changes.labels(change.kind, change.state).inc()
        if change.is_lost:
            self._lost.labels(change.kind).inc()
        if change.waited_s is not None:
            self._waited.labels(change.kind).observe(change.waited_s)
        if change.state not in FINAL:
            return
        self._ended.labels(change.kind, change.state, change.outcome).inc()
        if change.ran_s is not None:
            self._ran.labels(change.kind, change.state).observe(change.ran_s)
        if change.verdict is not None and change.state == "succeeded":
            self._verdicts.labels(change.verdict).inc()


def names_of(registry: CollectorRegistry) -> Sequence[tuple[str, str, frozenset[str]]]:
    """Name, type and current labels of every metric."""
    return [
        (
            family.name + ("_total" if family.type == "counter" else ""),
            family.type,
            frozenset(
                label for sample in family.samples for label in sample.labels if label != "le"
            ),
        )
        for family in registry.collect()
    ]
