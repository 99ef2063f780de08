"""Processes that a planner hands its independent searches to."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process

MAX_PROCESSES = 256  # chosen: more than a machine has cores
_USUAL = 2  # chosen: an interpreter takes a second to start


def usual_processes() -> int:
    """Where nobody says how many."""
    return min(_USUAL, os.cpu_count() or 1)


@contextmanager
def processes(count: int) -> Iterator[Executor | None]:
    """So many processes, each a new interpreter; None for one, which is this process itself.

    What they still do at the end is not waited for longer than their tasks take.
    """
    if count <= 1:
        yield None
        return
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_begin)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _begin() -> None:
    """Ctrl-C is for who began the search; nothing is left to do once that process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
