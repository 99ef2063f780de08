"""LRU cache of the graph views of plans."""

from __future__ import annotations

from collections.abc import Iterable

from meshwright_service.common.lru_cache import Latest
from meshwright_service.common.tenant import Tenant
from meshwright_service.plan_views.graph_view.encoding import facts_in, part_of
from meshwright_service.plan_views.graph_view.graph_arrays import GraphArrays
from meshwright_service.plan_views.graph_view.op_details import OpFacts
from meshwright_service.plan_views.view_cache import PlanViews
from meshwright_service.plan_views.views import DRAWING

KEPT = 8  # graph views; chosen: that of a plan of 100,000 ops takes about 30 MB


class Drawings:
    """The graph views of plans. Safe to share between threads."""

    def __init__(self, views: PlanViews) -> None:
        self._views = views
        self._kept: Latest[tuple[Tenant, str], GraphArrays] = Latest(KEPT)

    def of(self, tenant: Tenant, plan: str) -> GraphArrays:
        """The graph view of a plan; raises the errors of `PlanViews.parts`."""
        self._views.check(tenant, plan)
        drawing = self._kept.get((tenant, plan))
        if drawing is None:
            drawing = GraphArrays.from_bytes(self._views.part(tenant, plan, DRAWING))
            self._kept.keep((tenant, plan), drawing)
        return drawing

    def facts(self, tenant: Tenant, plan: str, ops: Iterable[int]) -> dict[int, OpFacts]:
        """The facts of at least these ops, by op; raises the errors of `PlanViews.parts`."""
        numbers = {part_of(op) for op in ops}
        parts = self._views.parts(tenant, plan, DRAWING, numbers)
        return {
            op: op_facts
            for number in parts
            for op, op_facts in facts_in(number, parts[number]).items()
        }
