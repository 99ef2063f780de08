"""The worker loop: claim a job, search and verify in child processes, store what came of it."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import traceback
import uuid
from collections.abc import Callable
from typing import Any

from meshwright.problems import error_of
from meshwright.schema import Certificate, Infeasible, Plan, Progress
from service import documents
from service.child import Child
from service.database import Database
from service.errors import Internal, TimedOut
from service.jobs import Claim, Jobs
from service.settings import Settings

log = logging.getLogger(__name__)
DOCUMENTS = (("graph", "graph"), ("topology", "topo"), ("setup", "setup"), ("calibration", "cal"))


class Worker:
    """One loop in a thread of its own; runs one child process at a time."""

    def __init__(self, database: Database, jobs: Jobs, settings: Settings) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._database = database
        self._jobs = jobs
        self._settings = settings
        self._stopping = threading.Event()
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There may be a job: look now rather than at the next poll."""
        self._news.set()

    def stop(self) -> None:
        """End the child process that runs, queue its job again, and end the loop."""
        self._stopping.set()
        self._news.set()
        self._thread.join(timeout=20)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                claim = self._jobs.claim(self.name)
                if claim is not None:
                    self._work(claim)
                    continue
            except Exception:  # the outermost loop: the next round may find the database well
                log.exception("the worker could not claim or end a job")
            self._news.wait(timeout=self._settings.poll_s)
            self._news.clear()

    def _work(self, claim: Claim) -> None:
        plan = claim.plan or self._search(claim)
        if plan is not None:
            self._verify(claim, plan)

    def _search(self, claim: Claim) -> str | None:
        """Search; the plan that is then to be verified."""
        found: list[str] = []

        def hear(message: dict[str, Any]) -> bool:
            match message:
                case {"progress": body}:
                    return not self._jobs.progress(claim, Progress.model_validate(body))
                case {"plan": body}:
                    plan = Plan.from_dict(body)
                    if self._jobs.succeed(claim, plan) == "to verify":
                        found.append(plan.id)
                case {"infeasible": body}:
                    self._jobs.succeed_without_plan(claim, Infeasible.model_validate(body))
                case {"problem": body}:
                    self._jobs.fail(claim, error_of(body))
                case {"fault": trace}:
                    log.error("job %s: the planner failed\n%s", claim.job, trace)
                    detail = f"the planner failed: {trace.strip().splitlines()[-1]}"
                    self._jobs.fail(claim, Internal(detail), trace=trace)
                case {"lost": trace}:
                    self._lose(claim, trace)
            return True

        def late() -> None:
            detail = f"the search took longer than {self._settings.solve_s:g} s"
            self._jobs.fail(claim, TimedOut(f"{detail}; give it a smaller budget"))

        arguments = [self._settings.planner]
        self._run_child(
            claim, "service.search", arguments, self._settings.solve_s, hear=hear, late=late
        )
        return found[0] if found else None

    def _verify(self, claim: Claim, plan: str) -> None:
        """Execute the plan of a job and end it with the certificate."""
        limit_s = self._settings.verify_s

        def hear(message: dict[str, Any]) -> bool:
            match message:
                case {"certificate": body}:
                    trace = message.get("trace")
                    if trace:
                        log.error("job %s: the verifier failed\n%s", claim.job, trace)
                    certificate = Certificate.from_dict(body)
                    if certificate.outcome == "failed":
                        log.error("plan %s is wrong: %s", plan, certificate.detail)
                    self._jobs.certify(claim, certificate, trace=trace)
                case {"lost": trace}:
                    self._lose(claim, trace)
            return True

        def late() -> None:
            why = f"time: executing it takes longer than {limit_s:g} s"
            certificate = Certificate(plan=plan, outcome="not verifiable", detail=why)
            self._jobs.certify(claim, certificate)

        begun = Progress(phase="verifying", done=0, total=1)
        if self._jobs.renew(claim) and self._jobs.progress(claim, begun):
            arguments = [self._settings.verifier, str(self._settings.verify_memory_bytes)]
            self._run_child(
                claim, "service.verification", arguments, limit_s, plan=plan, hear=hear, late=late
            )

    def _lose(self, claim: Claim, trace: str) -> None:
        log.warning("job %s: its process was lost\n%s", claim.job, trace)
        self._jobs.lost(claim, trace=trace)

    def _sent(self, claim: Claim, plan: str | None) -> bytes:
        """What a child is told, as JSON, put together without parsing the documents."""
        asked = dict(claim.asked)
        with self._database.reading() as connection:
            parts = {
                field: documents.read(connection, kind, asked.pop(field))
                for field, kind in DOCUMENTS
                if field in asked
            }
            if plan is not None:
                parts["plan"] = documents.read(connection, "plan", plan)
        return documents.join(parts, asked if plan is None else {})

    def _run_child(
        self,
        claim: Claim,
        module: str,
        arguments: list[str],
        seconds: float,
        *,
        plan: str | None = None,
        hear: Callable[[dict[str, Any]], bool],
        late: Callable[[], None],
    ) -> None:
        """Run a child to its last word, which `hear` tells, while the job stays ours."""
        try:
            child = Child(module, arguments, self._sent(claim, plan))
        except Exception:
            trace = traceback.format_exc()
            log.exception("job %s could not be started", claim.job)
            self._jobs.fail(claim, Internal("the job could not be started"), trace=trace)
            return
        try:
            self._follow(claim, child, seconds, hear, late)
        finally:
            child.end()

    def _follow(
        self,
        claim: Claim,
        child: Child,
        seconds: float,
        hear: Callable[[dict[str, Any]], bool],
        late: Callable[[], None],
    ) -> None:
        deadline = time.monotonic() + seconds
        renewal = self._settings.lease_s / 3
        renew_at = time.monotonic() + renewal
        while True:
            message = child.next(self._settings.poll_s)
            if message is not None and hear(message):
                return
            if self._stopping.is_set():
                child.end()
                self._jobs.release(claim)
                return
            now = time.monotonic()
            if now > deadline:
                child.end()
                late()
                return
            if now > renew_at:
                renew_at = now + renewal
                if not self._jobs.renew(claim):
                    return
            elif not self._jobs.holds(claim):
                return
