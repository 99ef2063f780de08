"""Views of stored plans: kept with them, and where they are not, made in a process of their own.

Kept for each tenant: how soon an answer comes tells nobody that others have the same plan.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from concurrent.futures import Future

from meshwright.schema import Plan
from meshwright_service.common.settings import Settings
from meshwright_service.common.tenant import Tenant
from meshwright_service.common.zstd import unpack
from meshwright_service.plan_views.view import PlanView
from meshwright_service.processes.process_pool import ShortProcesses
from meshwright_service.store import derived_documents, documents
from meshwright_service.store.database import Database
from meshwright_service.store.encoded_documents import Parts

Wanted = tuple[Tenant, str, PlanView]


class PlanViews:
    """Of the plans of one database. Safe to share between threads."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._processes = ShortProcesses(
            settings.view_processes,
            seconds=settings.view_s,
            memory_bytes=settings.view_memory_bytes,
        )
        self._lock = threading.Lock()
        self._under_way: dict[Wanted, Future[Parts]] = {}

    def check(self, tenant: Tenant, plan: str) -> None:
        """NotFound where the tenant has no such plan."""
        with self._database.reading() as connection:
            documents.check(connection, tenant, Plan.prefix, plan)

    def part(self, tenant: Tenant, plan: str, view: PlanView, number: int = 0) -> bytes:
        """One of `parts`."""
        return self.parts(tenant, plan, view, [number])[number]

    def parts(
        self, tenant: Tenant, plan: str, view: PlanView, numbers: Collection[int]
    ) -> dict[int, bytes]:
        """Parts of a view, by number. Raises what ShortProcesses.work does, and NotFound where the
        tenant has no such plan."""
        with self._database.reading() as connection:
            kept = derived_documents.read(connection, tenant, plan, view.name, numbers)
        if len(kept) == len(numbers):  # what is kept for a tenant goes with the plan
            return kept
        made = self._made_once((tenant, plan, view))
        return {number: unpack(made[number]) for number in numbers}

    def stop(self) -> None:
        """End what is under way."""
        self._processes.stop()

    def _made_once(self, wanted: Wanted) -> Parts:
        """Packed. Who asks for what is being made waits for it."""
        with self._lock:
            under_way = self._under_way.get(wanted)
            own: Future[Parts] = under_way or Future()
            self._under_way[wanted] = own
        if under_way is not None:
            return under_way.result()
        try:
            made = self._made(*wanted)
        except BaseException as error:
            own.set_exception(error)
            raise
        else:
            own.set_result(made)
        finally:
            with self._lock:
                del self._under_way[wanted]
        return made

    def _made(self, tenant: Tenant, plan: str, view: PlanView) -> Parts:
        with self._database.reading() as connection:
            sent = documents.of_plan(connection, tenant, plan)
        made = self._processes.work(view.made, sent)
        derived_documents.keep(self._database, tenant, plan, view.name, made)
        return made
