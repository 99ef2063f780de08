"""Requests that wait: so many of a tenant at one time, since each asks the database again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from meshwright_service.common.errors import TooManyWaits
from meshwright_service.common.tenant import Tenant


class LongPolls:
    """The requests of this process that wait; of the event loop's thread alone."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: Counter[Tenant] = Counter()

    def count(self, tenant: Tenant) -> int:
        """How many of a tenant wait."""
        return self._waiting[tenant]

    @contextmanager
    def one(self, tenant: Tenant) -> Iterator[None]:
        """One more, as long as this lasts; raises TooManyWaits."""
        if self._waiting[tenant] >= self._limit:
            raise TooManyWaits(
                f"{self._limit} requests of yours wait here already; end some, or ask without a "
                "wait and again later"
            )
        self._waiting[tenant] += 1
        try:
            yield
        finally:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant]
