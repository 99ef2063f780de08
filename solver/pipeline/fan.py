"""Independent searches, one after the other or fanned out through an executor.

The answers are the same, in the same order, whatever runs them; only where time is limited do they
depend on how fast it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from solver.deadline import Deadline

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
            while not future.done() and not deadline.is_over():
                try:
                    future.exception(timeout=_LOOK_S)
                except TimeoutError:
                    continue
            if not future.done():
                return
            yield future.result()
    finally:
        for future in waiting:
            future.cancel()


def _done(work: Callable[[Task, Deadline], Result], task: Task, ends: float | None) -> Result:
    return work(task, Deadline.at(ends))
