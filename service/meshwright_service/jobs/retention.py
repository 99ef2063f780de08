"""Retention: deletes expired rows in small transactions, so that other writers wait briefly.

1. Events of expired jobs.
2. Expired jobs, except the newest job that answers a request.
3. Plans without a label, a certificate or an observation that no open job needs.
4. Sweeps of the same age; their jobs and plans have ages of their own.
5. Solutions of cost graphs of the same age.
6. Graphs, topologies, setups, cost graphs and solutions that no plan and no job refers to.
7. Bytes of documents that no tenant holds.

Samples, calibrations and observations stay. Ages are measured by the database's clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    delete,
    literal,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.orm import aliased

from meshwright_service.common.settings import Settings
from meshwright_service.jobs.kinds import has_answer
from meshwright_service.store import deletion
from meshwright_service.store.database import Database
from meshwright_service.store.document_locks import deleting
from meshwright_service.store.insert_if_absent import insert_new
from meshwright_service.store.tables import (
    ChoreRow,
    HoldingRow,
    JobEventRow,
    JobRow,
    PlanRow,
    SweepRecord,
)

log = logging.getLogger(__name__)
DAY_S = 86400.0
AT_ONCE = 200  # rows of one transaction; chosen: each takes some milliseconds
CHORE = "prune"
KINDS = ("graph", "topo", "setup", "costgraph", "solution")
WHAT = ("events", "jobs", "plans", "sweeps", "solutions", "documents", "bytes")


class Retention:
    """Deletes the rows that the settings let expire. Safe to share between threads."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def is_due(self) -> bool:
        """Whether this process is to prune now; True for one process in each `prune_every_s`."""
        now = self._database.now
        due = or_(ChoreRow.done <= now - self._settings.prune_every_s, ChoreRow.done > now)
        with self._database.writing() as connection:
            insert_new(connection, ChoreRow, name=CHORE, done=0.0)
            mine = update(ChoreRow).where(ChoreRow.name == CHORE, due).values(done=now)
            return bool(connection.execute(mine).rowcount)

    def prune(self, may_go_on: Callable[[], bool] = lambda: True) -> dict[str, int]:
        """Delete expired rows while `may_go_on` returns True; return their counts by kind."""
        steps = (
            self._events, self._jobs, self._plans, self._sweeps, self._solutions,
            self._inputs, self._bytes,
        )  # fmt: skip
        counts = dict.fromkeys(WHAT, 0)
        for kind, step in zip(WHAT, steps, strict=True):
            while may_go_on():
                with self._database.writing() as connection:
                    count = step(connection)
                counts[kind] += count
                if not count:
                    break
        if any(counts.values()):
            log.info("pruned %s", ", ".join(f"{count} {kind}" for kind, count in counts.items()))
        return counts

    def _before(self, days: float) -> ColumnElement[float]:
        return self._database.now - days * DAY_S

    def _events(self, connection: Connection) -> int:
        days = self._settings.keep_events_days
        if not days:
            return 0
        with_events = select(literal(1)).where(JobEventRow.job == JobRow.id).exists()
        over = self._ended_before(days).where(with_events).limit(AT_ONCE)
        jobs = connection.execute(over).scalars().all()
        if jobs:
            connection.execute(delete(JobEventRow).where(JobEventRow.job.in_(jobs)))
        return len(jobs)

    def _jobs(self, connection: Connection) -> int:
        days = self._settings.keep_jobs_days
        if not days:
            return 0
        newer = aliased(JobRow)
        is_answer = and_(has_answer(newer), newer.ended_early.is_(False))
        again = select(literal(1)).where(
            newer.tenant == JobRow.tenant,
            newer.request == JobRow.request,
            is_answer,
            or_(
                newer.created > JobRow.created,
                and_(newer.created == JobRow.created, newer.id > JobRow.id),
            ),
        )
        answers = and_(has_answer(), JobRow.ended_early.is_(False))
        over = self._ended_before(days).where(or_(~answers, again.exists())).limit(AT_ONCE)
        deleting(connection)
        jobs = connection.execute(over).scalars().all()
        deletion.delete_jobs(connection, jobs)
        return len(jobs)

    def _plans(self, connection: Connection) -> int:
        days = self._settings.keep_plans_days
        if not days:
            return 0
        old = select(PlanRow.tenant, PlanRow.id).where(PlanRow.created < self._before(days))
        for constraint in deletion.referring_to("plans"):
            tenant, plan = constraint.columns
            references = select(literal(1)).where(tenant == PlanRow.tenant, plan == PlanRow.id)
            old = old.where(~references.exists())
        deleting(connection)
        plans = self._unneeded(connection, old.order_by(PlanRow.created))
        if plans:
            deletion.delete_plans(connection, plans)
        return len(plans)

    def _sweeps(self, connection: Connection) -> int:
        days = self._settings.keep_plans_days
        if not days:
            return 0
        old = select(SweepRecord.tenant, SweepRecord.id)
        old = old.where(SweepRecord.created < self._before(days)).limit(AT_ONCE)
        ids = [tuple(row) for row in connection.execute(old)]
        if ids:
            these = tuple_(SweepRecord.tenant, SweepRecord.id).in_(ids)
            connection.execute(delete(SweepRecord).where(these))
        return len(ids)

    def _solutions(self, connection: Connection) -> int:
        days = self._settings.keep_plans_days
        if not days:
            return 0
        old = select(HoldingRow.tenant, HoldingRow.id).where(
            HoldingRow.kind == "solution", HoldingRow.created < self._before(days)
        )
        deleting(connection)
        solutions = self._unneeded(connection, old.order_by(HoldingRow.created))
        deletion.delete_solutions(connection, solutions)
        return len(solutions)

    def _inputs(self, connection: Connection) -> int:
        days = self._settings.keep_documents_days
        if not days:
            return 0
        by_plan = and_(PlanRow.tenant == HoldingRow.tenant, or_(
            PlanRow.graph == HoldingRow.id, PlanRow.topology == HoldingRow.id,
        ))  # fmt: skip
        by_job = and_(JobRow.tenant == HoldingRow.tenant, or_(
            JobRow.graph == HoldingRow.id, JobRow.topology == HoldingRow.id,
            JobRow.cost_graph == HoldingRow.id, JobRow.solution == HoldingRow.id,
        ))  # fmt: skip
        old = select(HoldingRow.tenant, HoldingRow.id).where(
            HoldingRow.kind.in_(KINDS),
            HoldingRow.created < self._before(days),
            ~select(literal(1)).where(by_plan).exists(),
            ~select(literal(1)).where(by_job).exists(),
        )
        deleting(connection)
        setups = select(PlanRow.tenant, PlanRow.summary["setup"].as_string()).distinct()
        used = {(row[0], row[1]) for row in connection.execute(setups)}
        unneeded = self._unneeded(connection, old.order_by(HoldingRow.created), used)
        if unneeded:
            deletion.let_go(connection, unneeded)
        return len(unneeded)

    def _bytes(self, connection: Connection) -> int:
        return deletion.free_bytes(connection, AT_ONCE)

    def _ended_before(self, days: float) -> Select[Any]:
        """The jobs that ended more than `days` ago."""
        now = self._database.now
        ended = and_(~deletion.is_open(now), JobRow.finished < self._before(days))
        return select(JobRow.id).where(ended)

    def _unneeded(
        self,
        connection: Connection,
        candidates: Select[str, str],
        used: frozenset[tuple[str, str]] | set[tuple[str, str]] = frozenset(),
    ) -> Sequence[tuple[str, str]]:
        """The first AT_ONCE candidates that no open job needs and that are not in `used`."""
        needed = deletion.needed(connection, self._database.now) | used
        unneeded: list[tuple[str, str]] = []
        for tenant, id_ in connection.execute(candidates):
            if (tenant, id_) not in needed:
                unneeded.append((tenant, id_))
            if len(unneeded) == AT_ONCE:
                break
        return unneeded
