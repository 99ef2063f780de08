"""Dask executor: runs independent searches on the workers of a Dask scheduler.

A search that fails there runs in this process instead, so that Dask costs no job:

- the task kills its worker repeatedly;
- the scheduler or all workers are gone;
- the worker runs another planner build, whose answers may differ.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from distributed import Client, get_worker
from distributed.client import ClosedClientError
from distributed.comm.core import CommClosedError
from distributed.scheduler import KilledWorker
from distributed.security import Security

from meshwright.common.process_pool import processes
from meshwright_service.common.dask_address import Scheduler
from meshwright_solver.common.deadline import stopped_by
from meshwright_solver.planning.build import planner_build

log = logging.getLogger(__name__)
T = TypeVar("T")
CONNECT_S = 10.0  # chosen: short beside a search for pipelines
ALONE_S = 5.0  # time without workers before all runs here; chosen: a worker restarts within it
LOOK_S = 1.0  # interval of counting the workers; chosen
CLOSE_S = 3.0  # timeout of closing the client; chosen: the scheduler notices the end anyway


class OtherBuild(Exception):
    """A worker runs another planner build, so its answers may differ."""


LOST = (KilledWorker, CommClosedError, OtherBuild)


@contextmanager
def dask_workers(scheduler: Scheduler, count: int, modules: list[str]) -> Iterator[Executor]:
    """An executor on Dask's workers, with `count` local processes for failed tasks.

    modules: as in `meshwright.common.process_pool`.
    """
    with ExitStack() as stack:

        def here() -> Executor:
            executor_here = stack.enter_context(processes(max(2, count), modules))
            # without processes: one search at a time
            return executor_here or stack.enter_context(ThreadPoolExecutor(1))

        client = _connect(scheduler)
        if client is None:
            yield here()
            return
        stack.callback(client.close, timeout=CLOSE_S)
        executor = DaskExecutor(client, here)
        try:
            yield executor
        finally:
            executor.shutdown(cancel_futures=True)


def _connect(scheduler: Scheduler) -> Client | None:
    security = None
    if scheduler.authority:
        security = Security(
            require_encryption=True,
            tls_ca_file=scheduler.authority,
            tls_client_cert=scheduler.certificate,
            tls_client_key=scheduler.key,
        )
    try:
        return Client(scheduler.address, security=security, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as failure:  # unreadable files, network and TLS errors
        log.warning("Dask at %s: %s; searching here", scheduler.address, failure)
        return None


class DaskExecutor(Executor):
    """Submits to Dask, and submits failed tasks to another executor."""

    def __init__(self, client: Client, here: Callable[[], Executor]) -> None:
        self._there = client.get_executor(pure=False)
        self._client = client
        self._make_here = here
        self._here: Executor | None = None
        self._lock = threading.Lock()
        self._open: set[Future[Any]] = set()
        self._is_away = False
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def submit(self, work: Callable[..., T], /, *args: Any, **more: Any) -> Future[T]:
        """Submit work; returns a future of concurrent.futures."""
        promised: Future[T] = Future()
        build = planner_build()
        try:
            if self._is_away or self._client.status != "running":
                raise ClosedClientError("no worker, or no scheduler, is left")
            there = self._there.submit(_run_on_worker, build, work, args, more)
        except ClosedClientError as failure:
            self._run_here(promised, work, args, more, failure)
            return promised
        with self._lock:
            self._open.add(there)
        promised.add_done_callback(lambda _: promised.cancelled() and there.cancel())
        there.add_done_callback(lambda _: self._settle(there, promised, work, args, more))
        return promised

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop watching the workers; cancel_futures: also cancel the open tasks."""
        del wait
        self._ended.set()
        if cancel_futures:
            self._cancel_all()

    def _settle(
        self,
        there: Future[Any],
        promised: Future[T],
        work: Callable[..., T],
        args: tuple[Any, ...],
        more: dict[str, Any],
    ) -> None:
        with self._lock:
            self._open.discard(there)
        failure = None if there.cancelled() else there.exception()
        if there.cancelled() or isinstance(failure, LOST):
            if not promised.done() and not self._ended.is_set():
                self._run_here(promised, work, args, more, failure or "it is gone")
            return
        if not promised.set_running_or_notify_cancel():
            return
        if failure is not None:
            promised.set_exception(failure)
        else:
            promised.set_result(there.result())

    def _run_here(
        self,
        promised: Future[T],
        work: Callable[..., T],
        args: tuple[Any, ...],
        more: dict[str, Any],
        why: object,
    ) -> None:
        with self._lock:
            if self._here is None:
                log.warning("lost at Dask, done here: %s", why)
                self._here = self._make_here()
        here = self._here.submit(work, *args, **more)
        promised.add_done_callback(lambda _: promised.cancelled() and here.cancel())
        here.add_done_callback(lambda _: _hand_over(here, promised))

    def _watch(self) -> None:
        """Cancel the open tasks, which then run here, while there is no worker."""
        alone_s = 0.0
        while not self._ended.wait(LOOK_S):
            is_alone = not self._client.scheduler_info(n_workers=1)["workers"]
            alone_s = alone_s + LOOK_S if is_alone else 0.0
            self._is_away = alone_s >= ALONE_S
            if self._is_away:
                self._cancel_all()

    def _cancel_all(self) -> None:
        with self._lock:
            futures = list(self._open)
        for future in futures:
            future.cancel()


def _hand_over(here: Future[T], promised: Future[T]) -> None:
    if here.cancelled() or not promised.set_running_or_notify_cancel():
        return
    failure = here.exception()
    if failure is not None:
        promised.set_exception(failure)
    else:
        promised.set_result(here.result())


def _run_on_worker(
    build: str, work: Callable[..., T], args: tuple[Any, ...], more: dict[str, Any]
) -> T:
    """Run work on a Dask worker until it ends or is cancelled."""
    worker = get_worker()
    key = worker.get_current_task()
    if planner_build() != build:
        raise OtherBuild(
            f"the Dask worker {worker.address} runs the planner build {planner_build()}, the "
            f"search the build {build}. Install the same Meshwright on both"
        )

    def is_cancelled() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    with stopped_by(is_cancelled):
        return work(*args, **more)
