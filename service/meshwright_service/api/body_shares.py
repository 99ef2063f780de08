"""Fair shares of a memory budget between tenants.

A tenant may hold half of the memory that the other tenants leave. The first tenant holds at most
half of the budget, the next one a quarter; there is always room for another tenant.
"""

from __future__ import annotations

from collections import Counter

from meshwright_service.common.errors import Busy
from meshwright_service.common.tenant import Tenant

PART = 2  # chosen: a tenant holds at most 1 / PART of the rest


class BodyShares:
    """The bytes that each tenant holds of one budget, for the event loop's thread only."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: Counter[Tenant] = Counter()
        self._total = 0

    def held(self, tenant: Tenant) -> int:
        """The bytes of a tenant."""
        return self._held[tenant]

    def take(self, tenant: Tenant, count: int) -> None:
        """Reserve bytes for a tenant; raises Busy beyond its share."""
        held = self._held[tenant]
        if (held + count) * PART > self._limit - (self._total - held):
            raise Busy(
                "the body does not fit: bodies of this tenant take up its share of "
                "MESHWRIGHT_MAX_BUFFER_BYTES; send it again after the seconds in Retry-After"
            )
        self._held[tenant] = held + count
        self._total += count

    def give(self, tenant: Tenant, count: int) -> None:
        """Release bytes of a tenant."""
        self._total -= count
        self._held[tenant] -= count
        if not self._held[tenant]:
            del self._held[tenant]
