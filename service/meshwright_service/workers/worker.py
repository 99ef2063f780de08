"""The worker loop: claim a job, search and verify in child processes, store the result."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import traceback
import uuid
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from meshwright.schema import Progress
from meshwright_service.common.errors import Internal
from meshwright_service.common.settings import Settings
from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs import cancellation
from meshwright_service.jobs.leases import Claim, Leases
from meshwright_service.observability import logs
from meshwright_service.observability.outages import Outage
from meshwright_service.observability.process_metrics import Metrics
from meshwright_service.processes.child_client import Child
from meshwright_service.store import documents
from meshwright_service.store.database import AWAY, Database
from meshwright_service.workers.job_tasks import (
    ChildTask,
    Interrupted,
    SearchTask,
    SolveTask,
    VerifyTask,
)

log = logging.getLogger(__name__)
TURN_S = 1.0  # chosen: interval of the checks whether another tenant waits
FAULT_S = 1.0  # chosen: the pause after an unexpected exception, which is logged with its trace
DOCUMENTS = (
    ("graph", "graph"), ("topology", "topo"), ("setup", "setup"), ("calibration", "cal"),
    ("cost_graph", "costgraph"),
)  # fmt: skip


class Worker:
    """A worker thread that runs one job, and so one child process, at a time."""

    def __init__(
        self, database: Database, leases: Leases, settings: Settings, metrics: Metrics
    ) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._database = database
        self._leases = leases
        self._settings = settings
        self._metrics = metrics
        self._stopping = threading.Event()
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Poll for a job now; called when one may have been queued."""
        self._news.set()

    def begin_to_stop(self) -> None:
        """Request the end of the loop: it ends the child process and queues its job again."""
        self._stopping.set()
        self._news.set()

    def stop(self) -> None:
        """Stop the loop and wait until its job is queued again, at most 20 s."""
        self.begin_to_stop()
        self._thread.join(timeout=20)

    def wait(self, *, timeout_s: float) -> None:
        """Wait for the end of the loop, at most `timeout_s`."""
        self._thread.join(timeout=timeout_s)

    def is_alive(self) -> bool:
        """Whether the loop runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        with logs.about(worker=self.name):
            self._rounds()

    def _rounds(self) -> None:
        outage = Outage(log, "the worker could not claim or end a job")
        while not self._stopping.is_set():
            pause_s = self._settings.poll_s
            try:
                claim = self._leases.claim(self.name)
                outage.ended()
                if claim is not None:
                    on = {"job": claim.job, "attempt": claim.attempt, "tenant": claim.tenant}
                    with logs.about(**on), self._metrics.workers_busy.track_inprogress():
                        self._work(claim)
                    continue
            except AWAY as failure:
                pause_s = outage.failed(failure)
            except Exception:  # the outermost loop: the next round may succeed
                log.exception("the worker could not claim or end a job")
                pause_s = FAULT_S
            self._news.wait(timeout=pause_s)
            self._news.clear()

    def _work(self, claim: Claim) -> None:
        try:
            if claim.kind == "solution":
                self._solve(claim)
                return
            plan = claim.plan or self._search(claim)
            if plan is not None:
                self._verify(claim, plan)
        finally:
            cancellation.let_go(self._database, claim)

    def _search(self, claim: Claim) -> str | None:
        """Search for the plan of a job; return the id of the plan if it is to be verified."""
        task = SearchTask(claim, self._database, self._leases, self._settings)
        with self._metrics.search_seconds.time():
            self._run_child(claim, task)
        return self._leases.plan_to_verify(claim) if task.to_verify else None

    def _solve(self, claim: Claim) -> None:
        """Solve the cost graph of a job and end the job with the solution."""
        with self._metrics.solve_seconds.time():
            task = SolveTask(claim, self._database, self._leases, self._settings)
            self._run_child(claim, task)

    def _verify(self, claim: Claim, plan: str) -> None:
        """Execute the plan of a job and end the job with the certificate."""
        progress = Progress(phase="verifying", done=0, total=1)
        if self._leases.renew(claim) and self._leases.progress(claim, progress):
            with self._metrics.verification_seconds.time():
                self._run_child(claim, VerifyTask(claim, plan, self._leases, self._settings))

    def _child_input(self, claim: Claim, plan: str | None) -> bytes:
        """The input of a child process as JSON, joined without parsing the documents."""
        options = dict(claim.asked)
        with self._database.reading() as connection:
            parts = {
                field: documents.read(connection, claim.tenant, kind, options.pop(field))
                for field, kind in DOCUMENTS
                if field in options
            }
            if plan is not None:
                parts["plan"] = documents.read(connection, claim.tenant, "plan", plan)
            elif "from_plan" in options:
                steps = options.pop("steps")
                parts["before"] = _before(connection, claim.tenant, options.pop("from_plan"), steps)
        return documents.join(parts, options if plan is None else {})

    def _run_child(self, claim: Claim, task: ChildTask) -> None:
        """Run a child process to its final message, or to the end of the lease and its grace."""
        try:
            child = Child(task.work, task.arguments, self._child_input(claim, task.plan))
        except Exception:
            trace = traceback.format_exc()
            log.exception("job %s could not be started", claim.job)
            self._leases.cut_short(claim, Internal("the job could not be started"), trace=trace)
            return
        try:
            self._follow(claim, child, task)
        finally:
            child.end()

    def _follow(self, claim: Claim, child: Child, task: ChildTask) -> None:
        interrupted: Interrupted = "no"
        deadline = time.monotonic() + task.limit_s
        lease = _Lease(self._leases, claim, self._settings.lease_s)
        turn = _Turn(self._leases, claim, self._settings.slice_s)
        while True:
            message = child.next(self._settings.poll_s)
            if message is not None and self._hear(task, message, interrupted, lease):
                return
            if self._stopping.is_set():
                child.end()
                self._leases.release(claim)
                return
            if interrupted == "no" and turn.is_over():
                child.end()
                self._leases.give_way(claim)
                log.info("job %s gives way to a job of another tenant", claim.job)
                return
            if interrupted != "cancelled" and not lease.is_ours():
                if not cancellation.is_cancelled(self._database, claim):
                    return
                if not task.cancel_grace_s:
                    return
                interrupted, deadline = "cancelled", time.monotonic() + task.cancel_grace_s
                child.interrupt()
            elif time.monotonic() > deadline:
                if interrupted == "no" and task.late_grace_s:
                    interrupted, deadline = "late", time.monotonic() + task.late_grace_s
                    child.interrupt()
                    continue
                child.end()
                if interrupted != "cancelled":
                    task.late()
                return

    def _hear(
        self, task: ChildTask, message: dict[str, Any], interrupted: Interrupted, lease: _Lease
    ) -> bool:
        """Handle a message; retry while the database is away and the lease may be valid."""
        while True:
            try:
                return task.hear(message, interrupted)
            except AWAY:
                if self._stopping.wait(self._settings.poll_s) or not lease.may_be_ours():
                    raise


def _before(connection: Connection, tenant: Tenant, plan: str, steps: int) -> bytes:
    """The plan that runs before a replanning, with its topology, setup and step count, as JSON."""
    parts = {"plan": documents.read(connection, tenant, "plan", plan)}
    ids = json.loads(parts["plan"])
    parts["topology"] = documents.read(connection, tenant, "topo", ids["topology"])
    parts["setup"] = documents.read(connection, tenant, "setup", ids["setup"])
    return documents.join(parts, {"steps": steps})


class _Turn:
    """Time slice of an attempt while a job of a tenant with fewer running jobs waits.

    Each slice is twice as long as the one before. A search restarts in each slice, so it ends
    after about twice its own time at most.
    """

    def __init__(self, leases: Leases, claim: Claim, slice_s: float) -> None:
        self._leases = leases
        self._claim = claim
        self._next = time.monotonic() + slice_s * 2.0 ** min(claim.yields, 30)

    def is_over(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + TURN_S
        try:
            return self._leases.is_due_to_yield(self._claim)
        except AWAY:
            return False


class _Lease:
    """Lease of a job, checked in the database and renewed after a third of its duration.

    While the database is away, no other worker can claim the job: the lease counts as valid until
    it expires.
    """

    def __init__(self, leases: Leases, claim: Claim, lease_s: float) -> None:
        self._leases = leases
        self._claim = claim
        self._lease_s = lease_s
        self._renewed = time.monotonic()
        self._is_away = False

    def is_ours(self) -> bool:
        now = time.monotonic()
        try:
            if now < self._renewed + self._lease_s / 3 and not self._is_away:
                return self._leases.holds(self._claim)
            is_ours = self._leases.renew(self._claim)
        except AWAY as failure:
            self._say_away(failure)
            return self.may_be_ours()
        self._renewed, self._is_away = now, False
        return is_ours

    def may_be_ours(self) -> bool:
        """Whether the lease is unexpired by the clock of this machine."""
        return time.monotonic() < self._renewed + self._lease_s

    def _say_away(self, failure: DBAPIError) -> None:
        if not self._is_away:
            log.warning("job %s: the database is away: %s", self._claim.job, failure.orig)
        self._is_away = True
