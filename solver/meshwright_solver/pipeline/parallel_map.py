"""Parallel map: independent searches, sequential or through an executor.

The results and their order do not depend on the executor, unless the time is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import TypeVar

from meshwright_solver.common.deadline import Deadline

Task = TypeVar("Task")
Result = TypeVar("Result")

_LOOK_S = 0.1  # chosen: interval of deadline checks while a result is pending


def fanned(
    work: Callable[[Task, Deadline], Result],
    tasks: Sequence[Task],
    deadline: Deadline,
    executor: Executor | None = None,
) -> Iterator[Result]:
    """The results of the tasks in their order; fewer if the time ends.

    executor: any that takes picklable functions and arguments; None: sequential, in this process.
    """
    if executor is None:
        for task in tasks:
            yield work(task, deadline)
        return
    ends = deadline.on_every_clock()
    waiting = [executor.submit(_done, work, task, ends) for task in tasks]
    try:
        for future in waiting:
            if not _ends_in_time(future, deadline):
                return
            yield future.result()
    finally:
        for future in waiting:
            future.cancel()


def begun(
    work: Callable[[Task, Deadline], Result],
    task: Task,
    deadline: Deadline,
    executor: Executor | None = None,
) -> Callable[[], Result | None]:
    """Start a task and return a function that waits for its result.

    The function returns None if the time ends first. Without an executor the task runs at once.
    """
    if executor is None:
        result = work(task, deadline)
        return lambda: result
    future = executor.submit(_done, work, task, deadline.on_every_clock())
    return partial(_result_of, future, deadline)


def _result_of(future: Future[Result], deadline: Deadline) -> Result | None:
    if _ends_in_time(future, deadline):
        return future.result()
    future.cancel()
    return None


def _ends_in_time(future: Future[Result], deadline: Deadline) -> bool:
    """Wait for a result; False if the time ends first."""
    while not future.done() and not deadline.is_over():
        try:
            future.exception(timeout=_LOOK_S)
        except TimeoutError:
            continue
    return future.done()


def _done(work: Callable[[Task, Deadline], Result], task: Task, ends: float | None) -> Result:
    return work(task, Deadline.at(ends))
