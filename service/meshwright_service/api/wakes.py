"""Rate-limited wake-up of waiting requests, tenants in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from meshwright_service.common.tenant import Tenant

PAUSE_S = 0.005  # chosen: between two wake-ups; one takes about 1 ms (measured: bench.waiters)


class Sleeper(Protocol):
    """A waiting request."""

    def wake(self) -> None: ...


class Wakes:
    """The queue of requests to wake, by tenant, for the event loop's thread only."""

    def __init__(self) -> None:
        self._waiting: dict[Tenant, deque[Sleeper]] = {}
        self._queued: set[Sleeper] = set()
        self._waking: asyncio.Task[None] | None = None

    def add(self, tenant: Tenant, sleeper: Sleeper) -> None:
        """Queue a wake-up of a request, unless one is queued."""
        if sleeper in self._queued:
            return
        self._queued.add(sleeper)
        self._waiting.setdefault(tenant, deque()).append(sleeper)
        if self._waking is None or self._waking.done():
            self._waking = asyncio.create_task(self._wake())

    async def _wake(self) -> None:
        while self._waiting:
            tenant = next(iter(self._waiting))
            sleepers = self._waiting.pop(tenant)
            sleeper = sleepers.popleft()
            if sleepers:
                self._waiting[tenant] = sleepers  # at the end of the queue
            self._queued.discard(sleeper)
            sleeper.wake()
            await asyncio.sleep(PAUSE_S)
