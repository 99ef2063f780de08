"""Drawings of plans that were looked at last, ready to be drawn from."""

from __future__ import annotations

from collections.abc import Iterable

from service.drawing.drawing import Drawing
from service.drawing.facts import OpFacts
from service.drawing.parts import facts_in, part_of
from service.latest import Latest
from service.plan_views import PlanViews
from service.principals import Tenant
from service.views import DRAWING

KEPT = 8  # chosen: that of a plan of 100,000 ops takes some 30 MB


class Drawings:
    """Safe to share between threads."""

    def __init__(self, views: PlanViews) -> None:
        self._views = views
        self._kept: Latest[tuple[Tenant, str], Drawing] = Latest(KEPT)

    def of(self, tenant: Tenant, plan: str) -> Drawing:
        """The drawing of a plan; raises what PlanViews.parts does."""
        self._views.check(tenant, plan)
        found = self._kept.get((tenant, plan))
        if found is None:
            found = Drawing.from_bytes(self._views.part(tenant, plan, DRAWING))
            self._kept.keep((tenant, plan), found)
        return found

    def facts(self, tenant: Tenant, plan: str, ops: Iterable[int]) -> dict[int, OpFacts]:
        """What is said of these ops and of some others; raises the same."""
        numbers = {part_of(op) for op in ops}
        parts = self._views.parts(tenant, plan, DRAWING, numbers)
        return {op: own for number in parts for op, own in facts_in(number, parts[number]).items()}
