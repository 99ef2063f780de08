"""Processes that a planner hands its independent searches to."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import (
    connection,
    forkserver,
    get_all_start_methods,
    get_context,
    parent_process,
)
from multiprocessing.context import BaseContext

MAX_PROCESSES = 256  # chosen: more than a machine has cores
_USUAL = 8  # chosen: a search for pipelines hands out about a dozen drafts at a time


def usual_processes() -> int:
    """Where nobody says how many: as many as there are processors for this one, within reason."""
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    return min(_USUAL, count)


@contextmanager
def processes(count: int, modules: Sequence[str] = ()) -> Iterator[Executor | None]:
    """So many processes that share nothing with this one; None for one, which is this one itself.

    modules: loaded for all of them at once, while this process goes on, where the system can copy
    processes. What they still do at the end is not waited for longer than their tasks take.
    """
    if count <= 1:
        yield None
        return
    pool = ProcessPoolExecutor(count, mp_context=context(modules), initializer=begin)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def context(modules: Sequence[str]) -> BaseContext:
    """Copies of a process without threads, if there can be one; a process's first modules stay."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # it loads deaf to Ctrl-C
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def begin() -> None:
    """In a process: Ctrl-C is for who began it; nothing is left to do once that process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
