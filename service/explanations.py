"""Explanations: made in processes of their own, a few at a time, and remembered by content."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict

from meshwright.problems import error_of
from meshwright.schema import TooManyJobs
from meshwright.schema.explanation import Explanation
from service import documents
from service.child import Child
from service.database import Database
from service.errors import Internal
from service.principals import Tenant
from service.settings import Settings

log = logging.getLogger(__name__)
AT_ONCE = 2  # processes; chosen: a search has a core, and the API answers beside it
KEPT = 256  # explanations; chosen: some 50 kB each
GRACE_S = 60.0  # chosen: reading a plan of 100,000 ops, on a busy machine
TRIED_S = 1.0  # how long an explanation waits for its turn


class Explanations:
    """Why plans are as they are. Safe to share between threads; each process has its own."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._turns = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], Explanation] = OrderedDict()

    def of(self, tenant: Tenant, plan: str, glob: str, seconds: float) -> Explanation:
        """Of the ops of a plan that a glob means, within so many seconds.

        Raises NotFound where the tenant has no such plan, what is wrong with the glob, and
        TooManyJobs where others are being made.
        """
        sent = self._sent(tenant, plan)
        known = self._known((plan, glob), seconds)
        if known is not None:
            return known
        if not self._turns.acquire(timeout=TRIED_S):
            raise TooManyJobs(
                f"{AT_ONCE} explanations are being worked out, and no more are at once; ask again"
            )
        try:
            made = self._made(sent, glob, seconds)
        finally:
            self._turns.release()
        with self._lock:
            self._kept[plan, glob] = made
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return made

    def _known(self, key: tuple[str, str], seconds: float) -> Explanation | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None or not (found.complete or found.seconds >= seconds):
                return None
            self._kept.move_to_end(key)
            return found

    def _sent(self, tenant: Tenant, plan: str) -> bytes:
        """A plan file; NotFound where the tenant has no such plan."""
        with self._database.reading() as connection:
            return documents.join(documents.of_plan(connection, tenant, plan), {})

    def _made(self, sent: bytes, glob: str, seconds: float) -> Explanation:
        arguments = [glob, str(seconds), str(self._settings.verify_memory_bytes)]
        child = Child("service.explaining", arguments, sent)
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
        raise Internal("the explanation failed or took too long; the server's log has the trace")
