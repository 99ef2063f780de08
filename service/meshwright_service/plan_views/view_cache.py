"""Views of stored plans, read from the store or computed in a separate process.

Views are stored per tenant, so that response times do not reveal plans of other tenants.
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
    """The views of the plans of one database. Safe to share between threads."""

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
        """Raise NotFound if the tenant has no such plan."""
        with self._database.reading() as connection:
            documents.check(connection, tenant, Plan.prefix, plan)

    def part(self, tenant: Tenant, plan: str, view: PlanView, number: int = 0) -> bytes:
        """One part of a view; see `parts`."""
        return self.parts(tenant, plan, view, [number])[number]

    def parts(
        self, tenant: Tenant, plan: str, view: PlanView, numbers: Collection[int]
    ) -> dict[int, bytes]:
        """Parts of a view, by number.

        Raises NotFound for an unknown plan, and the errors of `ShortProcesses.work`.
        """
        with self._database.reading() as connection:
            stored = derived_documents.read(connection, tenant, plan, view.name, numbers)
        if len(stored) == len(numbers):  # no check of the plan: its deletion deletes them
            return stored
        computed = self._compute_once((tenant, plan, view))
        return {number: unpack(computed[number]) for number in numbers}

    def is_stored(self, tenant: Tenant, plan: str, view: PlanView) -> bool:
        """Whether a view of a plan is stored."""
        with self._database.reading() as connection:
            return bool(derived_documents.read(connection, tenant, plan, view.name, [0]))

    def stop(self) -> None:
        """Kill the running processes."""
        self._processes.stop()

    def _compute_once(self, wanted: Wanted) -> Parts:
        """The compressed parts of a view; concurrent calls for the same view share one process."""
        with self._lock:
            under_way = self._under_way.get(wanted)
            future: Future[Parts] = under_way or Future()
            self._under_way[wanted] = future
        if under_way is not None:
            return under_way.result()
        try:
            parts = self._compute(*wanted)
        except BaseException as error:
            future.set_exception(error)
            raise
        else:
            future.set_result(parts)
        finally:
            with self._lock:
                del self._under_way[wanted]
        return parts

    def _compute(self, tenant: Tenant, plan: str, view: PlanView) -> Parts:
        with self._database.reading() as connection:
            sent = documents.of_plan(connection, tenant, plan)
        parts = self._processes.work(view.compute, sent)
        derived_documents.keep(self._database, tenant, plan, view.name, parts)
        return parts
