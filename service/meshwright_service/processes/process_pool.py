"""Processes that each work one answer out and end: what would hold the API up if it did it itself.

What one took goes with it. They are sent pickles by their own parent, which reads bytes alone.
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
from meshwright_service.processes.forkserver import begun, pipe
from meshwright_service.store.encoded_documents import Parts

log = logging.getLogger(__name__)
Sent = Mapping[str, bytes]
Work = Callable[[Sent], Parts]
WAITING = 8  # beyond those that run; chosen: of the API's 40 threads most stay free
BEHIND = 10  # of nice; chosen: where cores are short, whoever asks for little goes first
PATIENCE_S = 30.0  # of one that waits for its turn; chosen: two large plans are done by then


class ShortProcesses:
    """So many at one time. Safe to share between threads.

    seconds, memory_bytes: that each may take.
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
        """What a function of a module makes of bytes, in a process of its own.

        Raises its MeshwrightError, Busy where too many wait already or it was not its turn in
        time, Internal where it fails otherwise, or takes too long or too much memory.
        """
        if not self._places.acquire(blocking=False):
            raise _busy()
        try:
            if not self._turns.acquire(timeout=PATIENCE_S):
                raise _busy()
            try:
                return self._done(work, sent)
            finally:
                self._turns.release()
        finally:
            self._places.release()

    def stop(self) -> None:
        """Kill those that run, and begin no more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.kill()

    def _done(self, work: Work, sent: Sent) -> Parts:
        ours, theirs = pipe(duplex=False)
        with ours:
            with theirs, self._lock:
                if self._stopped:
                    raise Unavailable("the service is being stopped")
                process = begun(_child, work, sent, theirs, self._memory_bytes, daemon=True)
                self._running.add(process)
            try:
                return self._heard(ours)
            finally:
                process.kill()
                process.join(timeout=10)
                with self._lock:
                    self._running.discard(process)

    def _heard(self, ours: Connection) -> Parts:
        try:
            if not ours.poll(self._seconds):
                log.error("an answer took longer than %g s to work out", self._seconds)
                raise Internal(f"this takes longer than {self._seconds:g} s to work out")
            head = json.loads(ours.recv_bytes())
            parts = {number: ours.recv_bytes() for number in head.get("parts", ())}
        except EOFError:
            with self._lock:
                if self._stopped:
                    raise Unavailable("the service is being stopped") from None
            log.error("the process of an answer ended without a word")
            raise Internal("the process that worked this out was lost") from None
        match head:
            case {"problem": body}:
                raise error_of(body)
            case {"fault": trace}:
                log.error("an answer could not be worked out\n%s", trace)
                raise Internal("this could not be worked out; the server's log has the trace")
        return parts


def _busy() -> Busy:
    return Busy("others are being worked out, and enough wait; ask again")


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
