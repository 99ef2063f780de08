"""Plans as they were read last, with their graphs: what dashboards ask of one plan over and over.

Reading a large plan takes a second, asking something of it milliseconds. Documents never change, so
what is remembered never is old; who may see a plan is asked of the store every time. Remembered
for each tenant: how soon an answer comes tells nobody that others have the same plan.
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

KEPT_BYTES = 64 << 20  # of JSON; chosen: in memory they take five times that; the last always stays


@dataclass(frozen=True)
class InspectedPlan:
    """A plan and its graph. Safe to share between threads. content_bytes: of their JSON."""

    plan: Plan
    graph: Graph
    content_bytes: int

    @cached_property
    def shares(self) -> tuple[OpShare, ...]:
        """What the plan says of every op."""
        return _shares(self.plan, self.graph)


@uncollected  # nothing of what is made here is garbage, and there is much of it
def _shares(plan: Plan, graph: Graph) -> tuple[OpShare, ...]:
    return tuple(shares_of(plan, graph))


class Inspected:
    """The plans that were asked for last. Safe to share between threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reading = threading.Lock()  # a page asks several things at once: it is read once
        self._kept: Latest[tuple[Tenant, str], InspectedPlan] = Latest(
            KEPT_BYTES, attrgetter("content_bytes")
        )

    def of(self, tenant: Tenant, id_: str) -> InspectedPlan:
        """A plan that the tenant has; NotFound where it has none of this id."""
        with self._database.reading() as connection:
            documents.check(connection, tenant, Plan.prefix, id_)
        found = self._kept.get((tenant, id_))
        if found is not None:
            return found
        with self._reading:
            return self._kept.get((tenant, id_)) or self._read(tenant, id_)

    def _read(self, tenant: Tenant, id_: str) -> InspectedPlan:
        with self._database.reading() as connection:
            own = documents.read(connection, tenant, Plan.prefix, id_)
            plan = Plan.from_json(own)
            of = documents.read(connection, tenant, Graph.prefix, plan.graph)
        made = InspectedPlan(plan, Graph.from_json(of), len(own) + len(of))
        settle()
        self._kept.keep((tenant, id_), made)
        return made
