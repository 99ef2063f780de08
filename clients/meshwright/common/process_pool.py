"""Process pool for the independent searches of a planner."""

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
_USUAL = 8  # chosen: a pipeline search submits about a dozen drafts at a time


def usual_processes() -> int:
    """The default number of processes: the available processors, at most 8."""
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    return min(_USUAL, count)


@contextmanager
def processes(count: int, modules: Sequence[str] = ()) -> Iterator[Executor | None]:
    """An executor of `count` separate processes; None for one, which is the current process.

    `modules` are preloaded once for all processes, in the background, where the system supports a
    fork server. On exit, pending tasks are canceled, and running tasks are not waited for.
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
    """The context of a fork server with preloaded modules, else of spawned processes.

    A fork server that runs already keeps its modules.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(list(modules))
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, [signal.SIGINT]
    )  # the fork server ignores Ctrl-C
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def begin() -> None:
    """Initialize a worker process: ignore Ctrl-C, and exit when the parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
