"""The worker loop: claim a job, search in a child process, store what came of it."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import traceback
import uuid
from typing import Any

from meshwright.problems import error_of
from meshwright.schema import Infeasible, Plan, Progress
from service import documents
from service.child import Child
from service.database import Database
from service.errors import Internal, TimedOut
from service.jobs import Claim, Jobs
from service.settings import Settings

log = logging.getLogger(__name__)


class Worker:
    """One loop in a thread of its own; runs one search at a time."""

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
        """End the search that runs, queue its job again, and end the loop."""
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
        try:
            child = Child(self._settings.planner, self._request(claim))
        except Exception:
            trace = traceback.format_exc()
            log.exception("job %s could not be started", claim.job)
            self._jobs.fail(claim, Internal("the search could not be started"), trace=trace)
            return
        try:
            self._follow(claim, child)
        finally:
            child.end()

    def _request(self, claim: Claim) -> bytes:
        """The whole request as JSON, put together without parsing the documents."""
        asked = dict(claim.asked)
        with self._database.reading() as connection:
            parts = {
                field: documents.read(connection, kind, asked.pop(field))
                for field, kind in (
                    ("graph", "graph"),
                    ("topology", "topo"),
                    ("setup", "setup"),
                    ("calibration", "cal"),
                )
                if field in asked
            }
        return documents.join(parts, asked)

    def _follow(self, claim: Claim, child: Child) -> None:
        deadline = time.monotonic() + self._settings.solve_s
        renewal = self._settings.lease_s / 3
        renew_at = time.monotonic() + renewal
        while True:
            message = child.next(self._settings.poll_s)
            if message is not None and self._hear(claim, message):
                return
            if self._stopping.is_set():
                child.end()
                self._jobs.release(claim)
                return
            now = time.monotonic()
            if now > deadline:
                child.end()
                detail = f"the search took longer than {self._settings.solve_s:g} s"
                self._jobs.fail(claim, TimedOut(f"{detail}; give it a smaller budget"))
                return
            if now > renew_at:
                renew_at = now + renewal
                if not self._jobs.renew(claim):
                    return
            elif not self._jobs.holds(claim):
                return

    def _hear(self, claim: Claim, message: dict[str, Any]) -> bool:
        """Store what the child says; whether this was its last word."""
        match message:
            case {"progress": body}:
                return not self._jobs.progress(claim, Progress.model_validate(body))
            case {"plan": body}:
                self._jobs.succeed(claim, Plan.from_dict(body))
            case {"infeasible": body}:
                self._jobs.succeed_without_plan(claim, Infeasible.model_validate(body))
            case {"problem": body}:
                self._jobs.fail(claim, error_of(body))
            case {"fault": trace}:
                log.error("job %s: the planner failed\n%s", claim.job, trace)
                detail = f"the planner failed: {trace.strip().splitlines()[-1]}"
                self._jobs.fail(claim, Internal(detail), trace=trace)
            case {"lost": trace}:
                log.warning("job %s: the search was lost\n%s", claim.job, trace)
                self._jobs.lost(claim, trace=trace)
        return True
