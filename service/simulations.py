"""Simulations of stored plans: made once in a process of their own, and kept with the plan.

Kept for each tenant: how soon an answer comes tells nobody that others have the same plan.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from meshwright.schema import NotFound, Plan
from service import derived, documents
from service.database import Database
from service.packing import unpack
from service.principals import Tenant
from service.settings import Settings
from service.short_processes import Parts, ShortProcesses
from service.simulating import CURVES, VERSION, RankCurve, simulated


class Simulations:
    """Of the plans of one database. Safe to share between threads."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._processes = ShortProcesses(
            settings.simulate_processes,
            seconds=settings.simulate_s,
            memory_bytes=settings.simulate_memory_bytes,
        )
        self._lock = threading.Lock()
        self._under_way: dict[tuple[Tenant, str], Future[Parts]] = {}

    def check(self, tenant: Tenant, plan: str) -> None:
        """NotFound where the tenant has no such plan."""
        with self._database.reading() as connection:
            if not documents.exists(connection, tenant, Plan.prefix, plan):
                raise NotFound(f"no plan has the id {plan[:100]!r}")

    def part(self, tenant: Tenant, plan: str, number: int) -> bytes:
        """A part of what `simulated` makes of a plan; raises what ShortProcesses.work does, and
        NotFound where the tenant has no such plan."""
        return self._parts(tenant, plan, [number])[number]

    def curves(self, tenant: Tenant, plan: str, ranks: int) -> tuple[RankCurve, ...]:
        """Of the memory of every rank; raises the same."""
        numbers = range(CURVES, CURVES + ranks)
        found = self._parts(tenant, plan, numbers)
        return tuple(RankCurve.model_validate_json(found[number]) for number in numbers)

    def stop(self) -> None:
        """End what is under way."""
        self._processes.stop()

    def _parts(self, tenant: Tenant, plan: str, numbers: Sequence[int]) -> Parts:
        self.check(tenant, plan)
        with self._database.reading() as connection:
            kept = derived.read(connection, plan, _name(tenant), numbers)
        if len(kept) == len(numbers):
            return kept
        made = self._made_once(tenant, plan)
        return {number: unpack(made[number]) for number in numbers}

    def _made_once(self, tenant: Tenant, plan: str) -> Parts:
        """Packed. Who asks for what is being made waits for it."""
        with self._lock:
            under_way = self._under_way.get((tenant, plan))
            own: Future[Parts] = under_way or Future()
            self._under_way[tenant, plan] = own
        if under_way is not None:
            return under_way.result()
        try:
            made = self._made(tenant, plan)
        except BaseException as error:
            own.set_exception(error)
            raise
        else:
            own.set_result(made)
        finally:
            with self._lock:
                del self._under_way[tenant, plan]
        return made

    def _made(self, tenant: Tenant, plan: str) -> Parts:
        with self._database.reading() as connection:
            sent = documents.of_plan(connection, tenant, plan)
        made = self._processes.work(simulated, sent)
        derived.keep(self._database, plan, _name(tenant), made)
        return made


def _name(tenant: Tenant) -> str:
    return f"simulated {VERSION} {tenant}"
