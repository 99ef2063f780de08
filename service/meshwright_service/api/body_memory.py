"""Memory limit of the request bodies in one process.

Two limits apply, each shared fairly between tenants:

- the budget (`BodyShares`): arrived bytes, and the weight of small bodies that are being read.
- the turns (`BodyTurns`): a body of more than 1/LARGE_PART of the budget is read alone.

So bodies take at most the budget and one large body. Python parses one body at a time, so turns
cost no throughput.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from meshwright_service.api.body_shares import BodyShares
from meshwright_service.api.body_turns import BodyTurns
from meshwright_service.common.tenant import Tenant

LARGE_PART = 8  # chosen: 32 MiB of 256, a graph of 100,000 values
LARGE_AT_ONCE = 1  # chosen: of 4,000,000 values one takes up to 1.3 GB
WEIGHED_AT_ONCE = 2  # chosen: the decoder of a zstd body holds up to 16 MiB
WAIT_S = 20.0  # chosen: below the 60 s after which clients and proxies give up


class BodyMemory:
    """Admission of bodies, for the event loop's thread only. limit: the budget, in bytes."""

    def __init__(self, limit: int, *, wait_s: float = WAIT_S) -> None:
        self.shares = BodyShares(limit)
        self._large_bytes = limit // LARGE_PART
        self.large = BodyTurns(LARGE_AT_ONCE, wait_s=wait_s)
        self._weighed = BodyTurns(WEIGHED_AT_ONCE, wait_s=wait_s)

    def weighing(self, tenant: Tenant) -> AbstractAsyncContextManager[None]:
        """A turn to decode a body and measure its weight; raises Busy."""
        return self._weighed.turn(tenant)

    @asynccontextmanager
    async def reading(self, tenant: Tenant, weight: int) -> AsyncIterator[None]:
        """Reserve memory for a body of this weight while it is read; raises Busy."""
        if weight > self._large_bytes:
            async with self.large.turn(tenant):
                yield
            return
        self.shares.take(tenant, weight)
        try:
            yield
        finally:
            self.shares.give(tenant, weight)
