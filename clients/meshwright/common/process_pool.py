"""Process pool for the independent searches of a planner."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import (
    active_children,
    connection,
    forkserver,
    get_all_start_methods,
    get_context,
    parent_process,
)
from multiprocessing.context import BaseContext
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
Result = TypeVar("Result")

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

    None too where the system lets none start: the fork server has a socket in the temporary folder,
    and the queues have semaphores in /dev/shm.

    `modules` are preloaded once for all processes, in the background, where the system supports a
    fork server. On exit, pending tasks are canceled, and running tasks are not waited for; the
    interpreter waits for them when it ends.
    """
    if count <= 1 or not _may_start_processes():
        yield None
        return
    pool = _LateProcesses(count, modules)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _may_start_processes() -> bool:
    # a lock of the method "fork" needs no other process
    method = "fork" if "fork" in get_all_start_methods() else None
    try:
        tempfile.gettempdir()
        get_context(method).Lock()
    except (OSError, ImportError):
        return False
    return True


@contextmanager
def killable_processes(count: int, modules: Sequence[str] = ()) -> Iterator[Executor]:
    """An executor of one or more separate processes. On exit, running tasks are killed."""
    pool = _LateProcesses(count, modules)
    others = set(active_children())
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(active_children()) - others:
            process.kill()
        pool.shutdown()  # else the interpreter may end while the executor looks at their pipes


class _LateProcesses(Executor):
    """Processes that start with the first task: many searches need none."""

    def __init__(self, count: int, modules: Sequence[str]) -> None:
        self._count = count
        self._modules = modules
        self._pool: ProcessPoolExecutor | None = None

    def submit(
        self, task: Callable[P, Result], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[Result]:
        if self._pool is None:
            context_ = context(self._modules)
            self._pool = ProcessPoolExecutor(self._count, mp_context=context_, initializer=begin)
        return self._pool.submit(task, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)


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
