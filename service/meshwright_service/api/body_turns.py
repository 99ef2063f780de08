"""Turns: a semaphore for work on bodies that is fair between tenants."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from meshwright_service.common.errors import Busy
from meshwright_service.common.tenant import Tenant


class BodyTurns:
    """A semaphore with `slots` turns, for the event loop's thread only.

    The next turn goes to the tenant with the fewest current turns; of equals, to the one that had
    none for longest. A tenant with a thousand bodies delays another tenant by one of them.
    """

    def __init__(self, slots: int, *, wait_s: float) -> None:
        self._free = slots
        self._wait_s = wait_s
        self._running: Counter[Tenant] = Counter()
        # a tenant that had a turn goes to the end
        self._waiting: dict[Tenant, deque[asyncio.Future[None]]] = {}

    def waiting(self) -> int:
        """The number of requests that wait for a turn."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(self, tenant: Tenant) -> AsyncIterator[None]:
        """Hold a turn for the block; raises Busy after the wait timeout."""
        if self._free:
            self._start(tenant)
        else:
            await self._wait(tenant)
        try:
            yield
        finally:
            self._end(tenant)

    async def _wait(self, tenant: Tenant) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            async with asyncio.timeout(self._wait_s):
                await turn
        except BaseException as failure:
            if turn.cancelled():
                self._leave(tenant, turn)
            else:  # the turn was granted at the moment of the cancellation
                self._end(tenant)
            if not isinstance(failure, TimeoutError):
                raise
            raise Busy(
                f"the body got no turn within {self._wait_s:g} s: other large bodies are being "
                "read; send it again after the seconds in Retry-After"
            ) from None

    def _start(self, tenant: Tenant) -> None:
        self._free -= 1
        self._running[tenant] += 1

    def _end(self, tenant: Tenant) -> None:
        following = min(self._waiting, key=self._running.__getitem__, default=None)
        self._free += 1
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        if following is None:
            return
        turns = self._waiting.pop(following)
        turn = turns.popleft()
        if turns:
            self._waiting[following] = turns
        self._start(following)
        turn.set_result(None)

    def _leave(self, tenant: Tenant, turn: asyncio.Future[None]) -> None:
        turns = self._waiting[tenant]
        turns.remove(turn)
        if not turns:
            del self._waiting[tenant]
