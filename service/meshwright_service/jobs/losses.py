"""Retries: a job whose attempt ended without an answer is queued again after a pause, or ended.

There are two kinds of such attempts:

- *loss*: the process of the search ends by itself or for lack of memory. The job may be the cause;
  `max_losses` losses end it.
- *lapse*: the worker ends or is cut off, so that the lease expires, or another program kills the
  process of the search. The job is rarely the cause, so `max_lapses` is large.

An agent measures in its own process, so a lapse of a measurement counts as a loss.

The n-th pause takes `retry_s` times 2 to the power of n - 1, at most `LONGEST_S`. A job that is
ended with an incumbent plan succeeds with that plan (`meshwright_service.jobs.incumbent_plans`).
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

LONGEST_S = 60.0  # chosen: most machines restart within this pause


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """Limits of the retries of a job. retry_s: the first pause, in seconds."""

    max_losses: int = 3
    max_lapses: int = 30
    retry_s: float = 1.0

    def pause_s(self, count: int) -> float:
        """The pause after `count` losses and lapses, in seconds."""
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
        """SQL condition on a job: it is queued and not paused."""
        now = self._database.now
        paused = and_(
            JobRow.paused_until.is_not(None), is_ahead(JobRow.paused_until, now, LONGEST_S)
        )
        return and_(JobRow.state == "queued", ~paused)

    def has_lapsed(self) -> ColumnElement[bool]:
        """SQL condition on a job: it runs and its lease has expired."""
        held = is_ahead(JobRow.lease_until, self._database.now, self._lease_s)
        return and_(JobRow.state == "running", ~held)

    def lost(self, row: Row[Any]) -> dict[str, Any]:
        """The columns of a job after one more loss below the limit."""
        pause_s = self._tries.pause_s(row.losses + row.lapses + 1)
        return {"losses": row.losses + 1, "paused_until": self._database.now + pause_s}

    def lapsed(self, row: Row[Any]) -> dict[str, Any]:
        """The columns of a job after one more lapse below the limit."""
        pause_s = self._tries.pause_s(row.losses + row.lapses + 1)
        return {"lapses": row.lapses + 1, "paused_until": self._database.now + pause_s}

    def settle(self, connection: Connection) -> None:
        """Queue the jobs whose leases have expired; end jobs at a retry limit and measurements
        that no live agent can take."""
        incumbent_plans.settle_expired(connection, now=self._database.now, lease_s=self._lease_s)
        lapsed, waits = self.has_lapsed(), JobRow.state == "queued"
        at_limit = or_(
            JobRow.losses >= self._tries.max_losses, JobRow.lapses >= self._tries.max_lapses
        )
        rows = connection.execute(
            select(
                JobRow.id, JobRow.kind, JobRow.state, JobRow.attempt, JobRow.trace, JobRow.tenant,
                JobRow.key, JobRow.plan, JobRow.verify, JobRow.losses, JobRow.lapses,
            )
            .where(or_(lapsed, and_(waits, or_(at_limit, self._agents.has_no_agent()))))
            .with_for_update(skip_locked=True)
        ).all()  # fmt: skip
        for row in rows:
            self._settle(connection, cast(Row[Any], row), or_(waits, lapsed))

    def _settle(self, connection: Connection, row: Row[Any], still: ColumnElement[bool]) -> None:
        is_lapse = row.state == "running"
        losses = row.losses + (is_lapse and row.kind == "measurement")
        lapses = row.lapses + (is_lapse and row.kind != "measurement")
        error = self._final_error(row, losses, lapses)
        values: dict[str, Any] = {"losses": losses, "lapses": lapses, "lease_until": None}
        if error is None:
            pause_s = self._tries.pause_s(losses + lapses)
            values |= {"state": "queued", "paused_until": JobRow.lease_until + pause_s}
        else:
            problem = error.problem()
            values |= {"state": "failed", "problem": problem, "finished": self._database.now}
            values |= self._incumbent_columns(connection, row)
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

    def _incumbent_columns(self, connection: Connection, row: Row[Any]) -> dict[str, Any]:
        """The columns of a job at a retry limit that has an incumbent plan; else empty.

        A job whose plan is to be verified is queued again, with its counts of losses reset.
        """
        best = incumbent_plans.of(connection, row.id)
        if best is None or row.plan is not None:
            return {}
        now, plan = self._database.now, best.plan
        documents.put_plan(connection, Tenant(row.tenant), plan, now=now, key=row.key)
        columns = {"outcome": plan.outcome, "plan": plan.id, **best.search_columns}
        if row.verify:
            return {"state": "queued", "losses": 0, "lapses": 0, "finished": None, **columns}
        return {"state": "succeeded", **columns}

    def _final_error(self, row: Row[Any], losses: int, lapses: int) -> MeshwrightError | None:
        """The error that ends a job; None if the job is tried again."""
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
            last_trace = f"; the last failure: {row.trace}" if row.trace else ""
            return NoAgent(
                f"no agent that can take this measurement was heard of for "
                f"{self._agents.silent_s:g} s{last_trace}. "
                "Start one: meshwright agent --serve --server URL"
            )
        return None

    def _note(
        self, connection: Connection, row: Row[Any], body: Any, *, is_lost: bool = False
    ) -> None:
        now = self._database.now
        events.note(connection, row.id, row.attempt, body, now=now, is_lost=is_lost)


def _search_lost(losses: int, trace: str) -> str:
    """The message of a search at its limit of losses.

    trace: a traceback, or a line on the end of the last process, followed by its output.
    """
    lines = trace.strip().splitlines() or ["the worker has no trace"]
    reason = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    if FOR_MEMORY in reason:
        remedy = (
            "Give the worker more memory, or bound a search by MESHWRIGHT_SOLVE_MEMORY_BYTES, so "
            "that it ends with the best plan so far"
        )
    else:
        remedy = "Read the worker's log for the reason, then ask again"
    return (
        f"the process that searched, or executed the plan, ended {losses} times without an "
        f"answer; the last time: {reason}. {remedy}"
    )


def _measurement_lost(losses: int, trace: str | None) -> str:
    last_trace = f"; the last failure: {trace}" if trace else ""
    return (
        f"the measurement was lost {losses} times: its agent ended, lost a process or was not "
        f"heard of in time{last_trace}"
    )
