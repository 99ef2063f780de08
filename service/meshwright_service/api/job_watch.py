"""Job watch: one query detects job changes for all waiting requests of a process.

The watch reads a version of every followed job in one query, and wakes the requests of each changed
job. Its load does not grow with the number of requests that wait for the same job. It is bounded:
queries take at most `SHARE` of one core, and requests are woken one after another, tenants in turn
(`meshwright_service.api.wakes`).

All code here runs in the event loop's thread.
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

LOOK_S = 0.1  # chosen: minimum interval of two queries
CLOSE_S = 5.0  # chosen: timeout of the last query when the process stops
SHARE = 0.1  # chosen: maximum share of one core for the queries

T = TypeVar("T")


@dataclass(slots=True)
class _FollowedJob:
    """A job with its followers. reads: their shared reads of this version."""

    followers: list[Follower] = field(default_factory=list)
    version: object = None
    reads: dict[Hashable, asyncio.Future[Any]] = field(default_factory=dict)


class Follower:
    """One request that waits for changes of one job."""

    def __init__(self, tenant: Tenant, followed: _FollowedJob) -> None:
        self.tenant = tenant
        self._followed = followed
        self._changed = asyncio.Event()

    async def read(self, key: Hashable, read: Callable[[], T]) -> T:
        """The result of `read`, which runs in a thread.

        All followers of the job that use the same key between two changes share one call. The
        result is at most LOOK_S old.
        """
        reads = self._followed.reads
        if key not in reads:
            reads[key] = asyncio.ensure_future(run_in_threadpool(read))
            reads[key].add_done_callback(_retrieve_exception)
        answer: T = await asyncio.shield(reads[key])
        return answer

    async def change(self, timeout_s: float) -> None:
        """Wait for the next change of the job, at most `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout_s)
        self._changed.clear()

    def wake(self) -> None:
        self._changed.set()


class JobWatch:
    """The followed jobs of this process. stopping: wakes every follower once it is set."""

    def __init__(self, jobs: Jobs, stopping: threading.Event) -> None:
        self._jobs = jobs
        self._stopping = stopping
        self._followed: dict[str, _FollowedJob] = {}
        self._wakes = Wakes()
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def follow(self, tenant: Tenant, job: str) -> Iterator[Follower]:
        """Follow a job of the tenant for the block."""
        followed = self._followed.setdefault(job, _FollowedJob())
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
        """Wait for the end of the last query when the process stops."""
        if self._looking is not None:
            await asyncio.wait([self._looking], timeout=CLOSE_S)

    async def _look(self) -> None:
        while self._followed and not self._stopping.is_set():
            jobs = list(self._followed)
            began = time.monotonic()
            try:
                versions = await run_in_threadpool(self._jobs.versions, jobs)
            except SQLAlchemyError:
                # wake all: each request queries the database itself and reports its error
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


def _retrieve_exception(read: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a read that no follower may await any more."""
    if not read.cancelled():
        read.exception()
