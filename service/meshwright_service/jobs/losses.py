"""Attempts that ended without an answer: the job is tried again after a pause, or is given up.

There are two kinds of such ends. A search is *lost* where its process ends by itself or for lack of
memory: the job may be the cause, and `max_losses` such attempts end it. An attempt *lapses* where
its whole worker ends or is cut off, so that the lease runs out, or where something else kills the
process of the search: the job is hardly the cause, and `max_lapses` is large. An agent runs a
measurement in its own process, so a lapse of a measurement counts as a loss.

The n-th pause takes `retry_s` times 2 to the power of n - 1, at most `LONGEST_S`. A job that is
given up while a plan is kept of its search succeeds with that plan
(`meshwright_service.jobs.incumbent_plans`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import ColumnElement, Connection, Row, and_, or_, select, update

from meshwright.schema import MeshwrightError
from meshwright_service.common.clock import is_ahead
from meshwright_service.common.errors import NoAgent, WorkerLost
from meshwright_service.common.oom_kills import FOR_MEMORY
from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs import events, incumbent_plans
from meshwright_service.jobs.agents import Agents
from meshwright_service.store import documents
from meshwright_service.store.database import Database
from meshwright_service.store.tables import JobRow

LONGEST_S = 60.0  # chosen: a pause within which most restarts of a machine end


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """How often a job is tried. max_losses, max_lapses: of its attempts. retry_s: the first pause
    between two attempts, in seconds."""

    max_losses: int = 3
    max_lapses: int = 30
    retry_s: float = 1.0

    def pause_s(self, count: int) -> float:
        """The pause after so many losses or lapses, in seconds."""
        return min(LONGEST_S, self.retry_s * 2.0 ** min(count - 1, 30))


class Losses:
    """The lost attempts of one database's jobs. Safe to share between threads and processes."""

    def __init__(
        self, database: Database, agents: Agents, tries: RetryLimits, *, lease_s: float
    ) -> None:
        self._database = database
        self._agents = agents
        self._tries = tries
        self._lease_s = lease_s

    def is_runnable(self) -> ColumnElement[bool]:
        """Of a job: it is queued, and no pause holds it."""
        now = self._database.now
        paused = and_(
            JobRow.paused_until.is_not(None), is_ahead(JobRow.paused_until, now, LONGEST_S)
        )
        return and_(JobRow.state == "queued", ~paused)

    def has_lapsed(self) -> ColumnElement[bool]:
        """Of a job: it runs, and its worker did not renew its lease in time."""
        held = is_ahead(JobRow.lease_until, self._database.now, self._lease_s)
        return and_(JobRow.state == "running", ~held)

    def lost(self, row: Row[Any]) -> dict[str, Any]:
        """The columns of a job whose search was lost once more, unless it is given up."""
        pause_s = self._tries.pause_s(row.losses + row.lapses + 1)
        return {"losses": row.losses + 1, "paused_until": self._database.now + pause_s}

    def lapsed(self, row: Row[Any]) -> dict[str, Any]:
        """The columns of a job of which one more attempt lapsed, unless it is given up."""
        pause_s = self._tries.pause_s(row.losses + row.lapses + 1)
        return {"lapses": row.lapses + 1, "paused_until": self._database.now + pause_s}

    def settle(self, connection: Connection) -> None:
        """Queue the jobs whose lease lapsed, and end those that were lost too often and the
        measurements that no agent could take."""
        incumbent_plans.settle_left(connection, now=self._database.now, lease_s=self._lease_s)
        lapsed, waits = self.has_lapsed(), JobRow.state == "queued"
        over = or_(JobRow.losses >= self._tries.max_losses, JobRow.lapses >= self._tries.max_lapses)
        rows = connection.execute(
            select(
                JobRow.id, JobRow.kind, JobRow.state, JobRow.attempt, JobRow.trace, JobRow.tenant,
                JobRow.key, JobRow.plan, JobRow.verify, JobRow.losses, JobRow.lapses,
            )
            .where(or_(lapsed, and_(waits, or_(over, self._agents.left_alone()))))
            .with_for_update(skip_locked=True)
        ).all()  # fmt: skip
        for row in rows:
            self._settle(connection, cast(Row[Any], row), or_(waits, lapsed))

    def _settle(self, connection: Connection, row: Row[Any], still: ColumnElement[bool]) -> None:
        is_lapse = row.state == "running"
        losses = row.losses + (is_lapse and row.kind == "measurement")
        lapses = row.lapses + (is_lapse and row.kind != "measurement")
        error = self._why(row, losses, lapses)
        values: dict[str, Any] = {"losses": losses, "lapses": lapses, "lease_until": None}
        if error is None:
            pause_s = self._tries.pause_s(losses + lapses)
            values |= {"state": "queued", "paused_until": JobRow.lease_until + pause_s}
        else:
            problem = error.problem()
            values |= {"state": "failed", "problem": problem, "finished": self._database.now}
            values |= self._rescued(connection, row)
        connection.execute(
            update(JobRow)
            .where(JobRow.id == row.id, JobRow.attempt == row.attempt, still)
            .values(**values)
        )
        if error is not None:
            incumbent_plans.forget(connection, row.id)
            if "plan" in values:
                self._note(connection, row, {"plan": values["plan"]})
        self._note(connection, row, {"state": values["state"]}, is_lost=is_lapse)

    def _rescued(self, connection: Connection, row: Row[Any]) -> dict[str, Any]:
        """What becomes of a job that is given up where a plan was kept: that is its answer. Where
        it is yet to be verified, that may be lost as often again."""
        best = incumbent_plans.of(connection, row.id)
        if best is None or row.plan is not None:
            return {}
        now, plan = self._database.now, best.plan
        documents.put_plan(connection, Tenant(row.tenant), plan, now=now, key=row.key)
        found = {"outcome": plan.outcome, "plan": plan.id, **best.found}
        if row.verify:
            return {"state": "queued", "losses": 0, "lapses": 0, "finished": None, **found}
        return {"state": "succeeded", **found}

    def _why(self, row: Row[Any], losses: int, lapses: int) -> MeshwrightError | None:
        """Why a job is given up; None where it is tried again."""
        if losses >= self._tries.max_losses:
            if row.kind == "measurement":
                return WorkerLost(_measurement_lost(losses, row.trace))
            return WorkerLost(_search_lost(losses, row.trace or ""))
        if lapses >= self._tries.max_lapses:
            return WorkerLost(
                f"{lapses} attempts were cut off: their workers or searches were killed, or lost "
                "the database. Nothing shows that the job is the cause. Read the logs of the "
                "workers for the reason, then ask again"
            )
        if row.state == "queued":
            said = f"; the last word: {row.trace}" if row.trace else ""
            return NoAgent(
                f"no agent that could measure this was heard of for {self._agents.silent_s:g} s"
                f"{said}; begin one: meshwright agent --serve --server URL"
            )
        return None

    def _note(
        self, connection: Connection, row: Row[Any], body: Any, *, is_lost: bool = False
    ) -> None:
        now = self._database.now
        events.note(connection, row.id, row.attempt, body, now=now, is_lost=is_lost)


def _search_lost(losses: int, trace: str) -> str:
    """trace: a traceback, or how the last process ended and then what it printed."""
    lines = trace.strip().splitlines() or ["the worker has no word of it"]
    how = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    if FOR_MEMORY in how:
        remedy = (
            "Give the worker more memory, or bound a search by MESHWRIGHT_SOLVE_MEMORY_BYTES, so "
            "that it ends with the best plan so far"
        )
    else:
        remedy = "Read the worker's log for the reason, then ask again"
    return (
        f"the process that searched, or executed the plan, ended {losses} times without an "
        f"answer; the last time: {how}. {remedy}"
    )


def _measurement_lost(losses: int, trace: str | None) -> str:
    said = f"; the last word: {trace}" if trace else ""
    return (
        f"the measurement was lost {losses} times: its agent ended, lost a process or was not "
        f"heard of in time{said}"
    )
