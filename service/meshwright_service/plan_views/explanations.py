"""Explanations of plans, computed in child processes, a few at a time, and cached."""

from __future__ import annotations

import logging
import threading

from meshwright.client.problems import error_of
from meshwright.schema import TooManyJobs
from meshwright.schema.explanation import Explanation
from meshwright_service.common.errors import Internal
from meshwright_service.common.lru_cache import Latest
from meshwright_service.common.settings import Settings
from meshwright_service.common.tenant import Tenant
from meshwright_service.processes.child_client import Child
from meshwright_service.store import documents
from meshwright_service.store.database import Database

log = logging.getLogger(__name__)
AT_ONCE = 2  # processes; chosen: leaves cores to a search and to the API
KEPT = 256  # explanations; chosen: some 50 kB each
GRACE_S = 60.0  # chosen: time to read a plan of 100,000 ops on a busy machine
TRIED_S = 1.0  # maximum wait for a free process


class Explanations:
    """Explanations with a cache of this process. Safe to share between threads."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._kept: Latest[tuple[str, str], Explanation] = Latest(KEPT)

    def of(self, tenant: Tenant, plan: str, glob: str, seconds: float) -> Explanation:
        """The explanation of the ops that match `glob`, computed within `seconds`.

        Raises NotFound for an unknown plan, the error of an invalid glob, and TooManyJobs if all
        processes are busy.
        """
        sent = self._plan_file(tenant, plan)
        known = self._kept.get((plan, glob))
        if known is not None and (known.complete or known.seconds >= seconds):
            return known
        if not self._turns.acquire(timeout=TRIED_S):
            raise TooManyJobs(
                f"{AT_ONCE} explanations are being computed, which is the limit. Try again later"
            )
        try:
            explanation = self._explain(sent, glob, seconds)
        finally:
            self._turns.release()
        self._kept.keep((plan, glob), explanation)
        return explanation

    def _plan_file(self, tenant: Tenant, plan: str) -> bytes:
        """The plan file as JSON; raises NotFound."""
        with self._database.reading() as connection:
            return documents.join(documents.of_plan(connection, tenant, plan), {})

    def _explain(self, sent: bytes, glob: str, seconds: float) -> Explanation:
        arguments = (glob, seconds, self._settings.verify_memory_bytes)
        child = Child("meshwright_service.workers.explain_process:explain", arguments, sent)
        try:
            message = child.next(seconds + GRACE_S)
        finally:
            child.end()
        match message:
            case {"explanation": body}:
                return Explanation.from_dict(body)
            case {"problem": body}:
                raise error_of(body)
            case {"fault": trace} | {"lost": trace}:
                log.error("an explanation failed\n%s", trace)
        raise Internal("the explanation failed or timed out. Read the trace in the server's log")
