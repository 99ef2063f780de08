"""Waiting for changes of jobs: one query for all requests of a process that wait.

The watch reads a version of every job that is followed, in one query, and wakes the requests whose
job has another version than before. Its load does not grow with the number of requests that wait
for the same job, and is bounded in total: queries take at most `SHARE` of one core, and requests
are woken one after another, tenants in turn (`meshwright_service.api.wakes`).

Everything here belongs to the event loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastapi.concurrency import run_in_threadpool
from sqlalchemy.exc import SQLAlchemyError

from meshwright_service.api.wakes import Wakes
from meshwright_service.common.tenant import Tenant
from meshwright_service.jobs.jobs import Jobs

LOOK_S = 0.1  # chosen: between two queries for versions
CLOSE_S = 5.0  # chosen: for the last query, when the process stops
SHARE = 0.1  # chosen: of one core, for these queries

T = TypeVar("T")


@dataclass(slots=True)
class _Followed:
    """A job with the requests that follow it; reads: what they read of this version, shared."""

    followers: list[Follower] = field(default_factory=list)
    version: object = None
    reads: dict[Hashable, asyncio.Future[Any]] = field(default_factory=dict)


class Follower:
    """One request that waits for changes of one job."""

    def __init__(self, tenant: Tenant, followed: _Followed) -> None:
        self.tenant = tenant
        self._followed = followed
        self._changed = asyncio.Event()

    async def read(self, key: Hashable, read: Callable[[], T]) -> T:
        """The answer of `read`, in a thread, once for all followers of the job that ask for the
        same key between two changes. What it tells is at most one look old."""
        reads = self._followed.reads
        if key not in reads:
            reads[key] = asyncio.ensure_future(run_in_threadpool(read))
            reads[key].add_done_callback(_heard)
        answer: T = await asyncio.shield(reads[key])
        return answer

    async def change(self, timeout_s: float) -> None:
        """Wait until the job has changed since the last change, or the time is over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout_s)
        self._changed.clear()

    def wake(self) -> None:
        self._changed.set()


class JobWatch:
    """The jobs that requests of this process follow. stopping: once set, every follower wakes."""

    def __init__(self, jobs: Jobs, stopping: threading.Event) -> None:
        self._jobs = jobs
        self._stopping = stopping
        self._followed: dict[str, _Followed] = {}
        self._wakes = Wakes()
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def follow(self, tenant: Tenant, job: str) -> Iterator[Follower]:
        """Follow a job, which the tenant has, for as long as this lasts."""
        followed = self._followed.setdefault(job, _Followed())
        follower = Follower(tenant, followed)
        followed.followers.append(follower)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            yield follower
        finally:
            followed.followers.remove(follower)
            if not followed.followers:
                del self._followed[job]

    async def close(self) -> None:
        """Wait for the end of the query that runs, once the process stops."""
        if self._looking is not None:
            await asyncio.wait([self._looking], timeout=CLOSE_S)

    async def _look(self) -> None:
        while self._followed and not self._stopping.is_set():
            jobs = list(self._followed)
            began = time.monotonic()
            try:
                versions = await run_in_threadpool(self._jobs.versions, jobs)
            except SQLAlchemyError:
                # each request asks for itself, and answers what the database does
                versions = {job: object() for job in jobs}
            for job, followed in list(self._followed.items()):
                version = versions.get(job)
                if job in versions and version != followed.version:
                    followed.version = version
                    followed.reads.clear()
                    for follower in followed.followers:
                        self._wakes.add(follower.tenant, follower)
            took_s = time.monotonic() - began
            await asyncio.sleep(max(LOOK_S, took_s * (1 - SHARE) / SHARE))
        for followed in self._followed.values():
            for follower in followed.followers:
                follower.wake()


def _heard(read: asyncio.Future[Any]) -> None:
    """A failure is the followers' that wait for it; there may be none any more."""
    if not read.cancelled():
        read.exception()
