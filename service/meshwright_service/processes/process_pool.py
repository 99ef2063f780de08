"""Short-lived processes: each computes one answer of the API, outside its process, and ends.

Its memory is freed at its end. The parent sends pickles and reads only bytes.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from meshwright.client.problems import error_of
from meshwright.common.process_pool import begin
from meshwright.schema import MeshwrightError, Unavailable
from meshwright_service.common.errors import Busy, Internal
from meshwright_service.common.memory_limit import limit_memory
from meshwright_service.processes.forkserver import pipe, start_process
from meshwright_service.store.encoded_documents import Parts

log = logging.getLogger(__name__)
Sent = Mapping[str, bytes]
Work = Callable[[Sent], Parts]
WAITING = 8  # waiting calls; chosen: most of the API's 40 threads stay free
BEHIND = 10  # of nice; chosen: small requests come first on a busy machine
PATIENCE_S = 30.0  # maximum wait of a call; chosen: two large plans take less


class ShortProcesses:
    """Runs at most `count` processes at a time. Safe to share between threads.

    seconds, memory_bytes: limits of each process.
    """

    def __init__(self, count: int, *, seconds: float, memory_bytes: int) -> None:
        self._seconds = seconds
        self._memory_bytes = memory_bytes
        self._turns = threading.BoundedSemaphore(count)
        self._places = threading.BoundedSemaphore(count + WAITING)
        self._lock = threading.Lock()
        self._running: set[BaseProcess] = set()
        self._stopped = False

    def work(self, work: Work, sent: Sent) -> Parts:
        """Call a function of a module in a new process and return its result.

        Raises the function's MeshwrightError; Busy if too many calls wait or the wait times out;
        Internal if the function fails otherwise or exceeds a limit.
        """
        if not self._places.acquire(blocking=False):
            raise _busy()
        try:
            if not self._turns.acquire(timeout=PATIENCE_S):
                raise _busy()
            try:
                return self._run(work, sent)
            finally:
                self._turns.release()
        finally:
            self._places.release()

    def stop(self) -> None:
        """Kill the running processes and refuse further calls."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()

    def _run(self, work: Work, sent: Sent) -> Parts:
        ours, theirs = pipe(duplex=False)
        with ours:
            with theirs, self._lock:
                if self._stopped:
                    raise Unavailable("the service is being stopped")
                process = start_process(_child, work, sent, theirs, self._memory_bytes, daemon=True)
                self._running.add(process)
            try:
                return self._read_answer(ours)
            finally:
                process.kill()
                process.join(timeout=10)
                with self._lock:
                    self._running.discard(process)

    def _read_answer(self, ours: Connection) -> Parts:
        try:
            if not ours.poll(self._seconds):
                log.error("the computation of an answer took longer than %g s", self._seconds)
                raise Internal(
                    f"the computation of the answer takes longer than {self._seconds:g} s"
                )
            head = json.loads(ours.recv_bytes())
            parts = {number: ours.recv_bytes() for number in head.get("parts", ())}
        except EOFError:
            with self._lock:
                if self._stopped:
                    raise Unavailable("the service is being stopped") from None
            log.error("the process of an answer ended without an answer")
            raise Internal("the process that computed the answer was lost") from None
        match head:
            case {"problem": body}:
                raise error_of(body)
            case {"fault": trace}:
                log.error("an answer could not be computed\n%s", trace)
                raise Internal("the answer could not be computed; the server's log has the trace")
        return parts


def _busy() -> Busy:
    return Busy("too many computations run and wait. Try again later")


def _child(work: Work, sent: Sent, answer: Connection, memory_bytes: int) -> None:
    begin()
    os.nice(BEHIND)
    limit_memory(memory_bytes)
    parts: Parts = {}
    try:
        parts = work(sent)
        head: dict[str, Any] = {"parts": list(parts)}
    except MeshwrightError as error:
        head = {"problem": error.problem()}
    except Exception:
        head = {"fault": traceback.format_exc()}
    answer.send_bytes(json.dumps(head).encode())
    for part in parts.values():
        answer.send_bytes(part)
