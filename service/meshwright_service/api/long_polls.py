"""Limit of the waiting requests of a tenant, because each queries the database repeatedly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from meshwright_service.common.errors import TooManyWaits
from meshwright_service.common.tenant import Tenant


class LongPolls:
    """The waiting requests of this process, for the event loop's thread only."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: Counter[Tenant] = Counter()

    def count(self, tenant: Tenant) -> int:
        """The number of waiting requests of a tenant."""
        return self._waiting[tenant]

    @contextmanager
    def one(self, tenant: Tenant) -> Iterator[None]:
        """Count one more waiting request for the block; raises TooManyWaits."""
        if self._waiting[tenant] >= self._limit:
            raise TooManyWaits(
                f"the tenant has {self._limit} waiting requests, which is the limit. End some, or "
                "poll without a wait"
            )
        self._waiting[tenant] += 1
        try:
            yield
        finally:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant]
