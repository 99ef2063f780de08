"""Independent searches, one after the other or fanned out through an executor.

The answers are the same, in the same order, whatever runs them; only where time is limited do they
depend on how fast it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import TypeVar

from meshwright_solver.common.deadline import Deadline

Task = TypeVar("Task")
Result = TypeVar("Result")

_LOOK_S = 0.1  # chosen: how often who waits asks whether the time is over


def fanned(
    work: Callable[[Task, Deadline], Result],
    tasks: Sequence[Task],
    deadline: Deadline,
    executor: Executor | None = None,
) -> Iterator[Result]:
    """The results of the tasks in their order; fewer where the time ends before.

    executor: of processes or of anything else that takes functions and arguments that can be
    pickled. None: one after the other, here.
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
    """What waits for the result of a task that runs from now on: None where the time ends before.
    Without an executor the task is done at once."""
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
    """Whether a result came before the end of the time."""
    while not future.done() and not deadline.is_over():
        try:
            future.exception(timeout=_LOOK_S)
        except TimeoutError:
            continue
    return future.done()


def _done(work: Callable[[Task, Deadline], Result], task: Task, ends: float | None) -> Result:
    return work(task, Deadline.at(ends))
