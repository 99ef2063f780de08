"""LRU cache of parsed plans with their graphs, for the dashboard.

Parsing a large plan takes a second, a query on it milliseconds. Documents are immutable, so entries
never become stale; the store checks access every time. The cache is per tenant, so that response
times do not reveal plans of other tenants.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from meshwright.reports.ops import OpShare, shares_of
from meshwright.schema import Graph, Plan
from meshwright.schema.garbage_collection import settle, uncollected
from meshwright_service.common.lru_cache import Latest
from meshwright_service.common.tenant import Tenant
from meshwright_service.store import documents
from meshwright_service.store.database import Database

KEPT_BYTES = 64 << 20  # of JSON; chosen: takes five times that in memory


@dataclass(frozen=True)
class InspectedPlan:
    """A plan and its graph. Safe to share between threads. content_bytes: of their JSON."""

    plan: Plan
    graph: Graph
    content_bytes: int

    @cached_property
    def shares(self) -> tuple[OpShare, ...]:
        """The share of every op in the plan."""
        return _shares(self.plan, self.graph)


@uncollected  # creates many objects and no garbage
def _shares(plan: Plan, graph: Graph) -> tuple[OpShare, ...]:
    return tuple(shares_of(plan, graph))


class PlanCache:
    """The most recently used plans. Safe to share between threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reading = threading.Lock()  # concurrent requests of a page parse a plan once
        self._kept: Latest[tuple[Tenant, str], InspectedPlan] = Latest(
            KEPT_BYTES, attrgetter("content_bytes")
        )

    def of(self, tenant: Tenant, id_: str) -> InspectedPlan:
        """A plan of the tenant; raises NotFound."""
        with self._database.reading() as connection:
            documents.check(connection, tenant, Plan.prefix, id_)
        entry = self._kept.get((tenant, id_))
        if entry is not None:
            return entry
        with self._reading:
            return self._kept.get((tenant, id_)) or self._read(tenant, id_)

    def _read(self, tenant: Tenant, id_: str) -> InspectedPlan:
        with self._database.reading() as connection:
            plan_json = documents.read(connection, tenant, Plan.prefix, id_)
            plan = Plan.from_json(plan_json)
            graph_json = documents.read(connection, tenant, Graph.prefix, plan.graph)
        inspected = InspectedPlan(
            plan, Graph.from_json(graph_json), len(plan_json) + len(graph_json)
        )
        settle()
        self._kept.keep((tenant, id_), inspected)
        return inspected
