"""Prometheus metrics of the store, equal in every process; aggregate them with `max`, not `sum`.

A process caches them for KEPT_S. While the store does not answer, only `meshwright_store_up` is
exported.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import quantiles

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from meshwright_service.common.clock import is_ahead
from meshwright_service.common.settings import Settings
from meshwright_service.jobs.agents import Agents
from meshwright_service.jobs.kinds import KINDS
from meshwright_service.store.database import Database
from meshwright_service.store.tables import (
    AgentRow,
    CertificateRow,
    HoldingRow,
    JobRow,
    ObservationRow,
)

log = logging.getLogger(__name__)
KEPT_S = 5.0  # chosen: below the usual scrape intervals
RECENT = 1000  # observations in the quantiles; chosen
BYTES = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
    "postgresql": "SELECT pg_database_size(current_database())",
}
STATES = ("queued", "running", "succeeded", "failed", "cancelled")


class StoreMetrics(Collector):
    """Gauges that a scrape reads from the store. Safe to share between threads."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._agents = Agents(database, silent_s=settings.agent_silent_s)
        self._lease_s = settings.lease_s
        self._clock = clock
        self._lock = threading.Lock()
        self._cached: tuple[float, list[GaugeMetricFamily]] | None = None

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """No families: the store may be unavailable when the collector is registered."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        with self._lock:
            now = self._clock()
            if self._cached is None or now >= self._cached[0]:
                self._cached = (now + KEPT_S, self._families())
            families = self._cached[1]
        yield from families

    def _families(self) -> list[GaugeMetricFamily]:
        up = GaugeMetricFamily("meshwright_store_up", "Whether the store answers")
        try:
            with self._database.reading() as connection:
                families = [
                    *self._jobs(connection),
                    self._agents_of(connection),
                    *_documents(connection),
                    *_ratios(connection),
                    *self._bytes(connection),
                ]
        except SQLAlchemyError as failure:
            log.warning("the store does not answer: %s", getattr(failure, "orig", failure))
            up.add_metric((), 0)
            return [up]
        up.add_metric((), 1)
        return [up, *families]

    def _jobs(self, connection: Connection) -> Iterator[GaugeMetricFamily]:
        jobs = GaugeMetricFamily(
            "meshwright_store_jobs", "Jobs that the store has", labels=("kind", "state")
        )
        counts = select(JobRow.kind, JobRow.state, func.count()).group_by(JobRow.kind, JobRow.state)
        jobs_by_state = {(kind, state): count for kind, state, count in connection.execute(counts)}
        for kind in KINDS:
            for state in STATES:
                jobs.add_metric((kind, state), jobs_by_state.get((kind, state), 0))
        yield jobs
        age = GaugeMetricFamily(
            "meshwright_store_queue_age_seconds",
            "Age of the oldest job in the queue",
            labels=("kind",),
        )
        ages = (
            select(JobRow.kind, self._database.now - func.min(JobRow.created))
            .where(JobRow.state == "queued")
            .group_by(JobRow.kind)
        )
        oldest = {kind: float(seconds) for kind, seconds in connection.execute(ages)}
        for kind in KINDS:
            age.add_metric((kind,), max(0.0, oldest.get(kind, 0.0)))
        yield age
        lapsed = ~is_ahead(JobRow.lease_until, self._database.now, self._lease_s)
        count = select(func.count()).where(JobRow.state == "running", lapsed)
        yield GaugeMetricFamily(
            "meshwright_store_lapsed_jobs",
            "Running jobs whose lease has expired",
            value=connection.execute(count).scalar_one(),
        )

    def _agents_of(self, connection: Connection) -> GaugeMetricFamily:
        agents = GaugeMetricFamily("meshwright_store_agents", "Agents", labels=("state",))
        alive = select(func.count()).select_from(AgentRow).where(self._agents.alive())
        every = select(func.count()).select_from(AgentRow)
        heard = connection.execute(alive).scalar_one()
        agents.add_metric(("alive",), heard)
        agents.add_metric(("silent",), connection.execute(every).scalar_one() - heard)
        return agents

    def _bytes(self, connection: Connection) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(
            "meshwright_store_bytes",
            "Size of the database",
            value=connection.execute(text(BYTES[self._database.dialect])).scalar_one(),
        )
        file = self._database.engine.url.database
        if self._database.dialect == "sqlite" and file:
            yield GaugeMetricFamily(
                "meshwright_store_free_bytes",
                "Free space on the disk of a SQLite store",
                value=shutil.disk_usage(Path(file).parent).free,
            )


def _documents(connection: Connection) -> Iterator[GaugeMetricFamily]:
    documents = GaugeMetricFamily(
        "meshwright_store_documents", "Documents that tenants have", labels=("kind",)
    )
    for kind, count in connection.execute(
        select(HoldingRow.kind, func.count()).group_by(HoldingRow.kind)
    ):
        documents.add_metric((kind,), count)
    yield documents
    certificates = GaugeMetricFamily(
        "meshwright_store_certificates", "Plans that were executed", labels=("outcome",)
    )
    counts = select(CertificateRow.outcome, func.count()).group_by(CertificateRow.outcome)
    by_outcome: dict[str, int] = {row.outcome: row[1] for row in connection.execute(counts)}
    for outcome in ("verified", "failed", "not verifiable"):
        certificates.add_metric((outcome,), by_outcome.get(outcome, 0))
    yield certificates


def _ratios(connection: Connection) -> Iterator[GaugeMetricFamily]:
    yield GaugeMetricFamily(
        "meshwright_store_observations",
        "Steps that training jobs reported",
        value=connection.execute(select(func.count()).select_from(ObservationRow)).scalar_one(),
    )
    newest = select(ObservationRow.ratio).order_by(ObservationRow.created.desc()).limit(RECENT)
    ratios = list(connection.execute(newest).scalars())
    observed = GaugeMetricFamily(
        "meshwright_store_observed_ratio",
        f"Measured over predicted step, of the last {RECENT}",
        labels=("quantile",),
    )
    if ratios:
        tenths = quantiles(ratios, n=10) if len(ratios) > 1 else ratios * 9
        for name, at in (("0.1", 0), ("0.5", 4), ("0.9", 8)):
            observed.add_metric((name,), tenths[at])
    yield observed
