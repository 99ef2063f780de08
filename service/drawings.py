"""Drawings of plans: as they are kept beside the plans, or made where none is kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from meshwright.schema import NotFound, Plan
from service import derived, documents
from service.database import Database
from service.drawing.drawing import Drawing
from service.drawing.facts import OpFacts
from service.drawing.parts import NAME, facts_in, part_of
from service.inspected import Inspected
from service.packing import unpack
from service.principals import Tenant
from service.views import drawing_parts

KEPT = 8  # in memory; chosen: that of a plan of 100,000 ops takes some 30 MB


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawing that was read or made. made: its packed parts, where they were made here."""

    drawing: Drawing
    made: Mapping[int, bytes] = field(default_factory=dict)


class Drawings:
    """The drawings that were asked for last. Safe to share between threads."""

    def __init__(self, database: Database, inspected: Inspected) -> None:
        self._database = database
        self._inspected = inspected
        self._lock = threading.Lock()
        self._making = threading.Lock()  # a page asks several things at once: it is made once
        self._kept: OrderedDict[str, Drawn] = OrderedDict()

    def of(self, tenant: Tenant, plan: str) -> Drawn:
        """The drawing of a plan that the tenant has; NotFound where it has none of this id."""
        with self._database.reading() as connection:
            if not documents.exists(connection, tenant, Plan.prefix, plan):
                raise NotFound(f"no plan has the id {plan[:100]!r}")
        found = self._remembered(plan)
        if found is not None:
            return found
        with self._making:
            found = self._remembered(plan) or self._read(plan) or self._made(tenant, plan)
        with self._lock:
            self._kept[plan] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    def facts(self, plan: str, drawn: Drawn, ops: Iterable[int]) -> dict[int, OpFacts]:
        """What is said of these ops; NotFound where the plan was deleted meanwhile."""
        parts = {part_of(op) for op in ops}
        if drawn.made:
            found = {part: unpack(drawn.made[part]) for part in parts}
        else:
            with self._database.reading() as connection:
                found = derived.read(connection, plan, NAME, parts)
        if len(found) < len(parts):
            raise NotFound(f"the plan {plan[:100]!r} was deleted a moment ago")
        return {op: own for part in found for op, own in facts_in(part, found[part]).items()}

    def _remembered(self, plan: str) -> Drawn | None:
        with self._lock:
            found = self._kept.get(plan)
            if found is not None:
                self._kept.move_to_end(plan)
            return found

    def _read(self, plan: str) -> Drawn | None:
        with self._database.reading() as connection:
            found = derived.read(connection, plan, NAME, [0])
        return Drawn(Drawing.from_bytes(found[0])) if found else None

    def _made(self, tenant: Tenant, id_: str) -> Drawn:
        parts = drawing_parts(self._inspected.of(tenant, id_).shares)
        derived.keep(self._database, id_, NAME, parts)
        return Drawn(Drawing.from_bytes(unpack(parts[0])), parts)
