"""Drawings of plans that were looked at last, ready to be drawn from."""

from __future__ import annotations

from collections.abc import Iterable

from meshwright_service.common.lru_cache import Latest
from meshwright_service.common.tenant import Tenant
from meshwright_service.plan_views.graph_view.encoding import facts_in, part_of
from meshwright_service.plan_views.graph_view.graph_arrays import GraphArrays
from meshwright_service.plan_views.graph_view.op_details import OpFacts
from meshwright_service.plan_views.view_cache import PlanViews
from meshwright_service.plan_views.views import DRAWING

KEPT = 8  # chosen: that of a plan of 100,000 ops takes some 30 MB


class Drawings:
    """Safe to share between threads."""

    def __init__(self, views: PlanViews) -> None:
        self._views = views
        self._kept: Latest[tuple[Tenant, str], GraphArrays] = Latest(KEPT)

    def of(self, tenant: Tenant, plan: str) -> GraphArrays:
        """The drawing of a plan; raises what PlanViews.parts does."""
        self._views.check(tenant, plan)
        found = self._kept.get((tenant, plan))
        if found is None:
            found = GraphArrays.from_bytes(self._views.part(tenant, plan, DRAWING))
            self._kept.keep((tenant, plan), found)
        return found

    def facts(self, tenant: Tenant, plan: str, ops: Iterable[int]) -> dict[int, OpFacts]:
        """What is said of these ops and of some others; raises the same."""
        numbers = {part_of(op) for op in ops}
        parts = self._views.parts(tenant, plan, DRAWING, numbers)
        return {op: own for number in parts for op, own in facts_in(number, parts[number]).items()}
