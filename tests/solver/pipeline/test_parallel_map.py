"""Searches fanned out: whatever runs them, the answer is the same."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from meshwright.schema import Pin, Pipeline, RequestError, Setup
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.pipeline.parallel_map import fanned
from meshwright_solver.planning.planner import plan
from tests.solver.layered import layered
from tests.solver.requests import toy_request
from tests.solver.small_graphs import topology

Result = TypeVar("Result")
FREE = Deadline.after(None)


class Elsewhere(Executor):
    """Runs what it is given when the last of it has come, latest first, and only on pickled copies
    of it, as in another process. sizes: of all that was pickled on the way there."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.waiting: list[tuple[bytes, Future[Any]]] = []

    def submit(  # type: ignore[override]
        self, work: Callable[..., Result], /, *args: object
    ) -> Future[Result]:
        packed = pickle.dumps((work, args))
        self.sizes.append(len(packed))
        future: _Lazy = _Lazy(self)
        self.waiting.append((packed, future))
        return future

    def run(self) -> None:
        while self.waiting:
            packed, future = self.waiting.pop()
            if future.set_running_or_notify_cancel():
                own, given = pickle.loads(packed)
                try:
                    future.set_result(pickle.loads(pickle.dumps(own(*given))))
                except Exception as wrong:
                    future.set_exception(pickle.loads(pickle.dumps(wrong)))


class _Lazy(Future[Any]):
    def __init__(self, executor: Elsewhere) -> None:
        super().__init__()
        self.executor = executor

    def done(self) -> bool:
        self.executor.run()
        return super().done()


def doubled(task: int, _: Deadline) -> int:
    return 2 * task


def slow(task: float, deadline: Deadline) -> bool:
    time.sleep(task)
    return deadline.is_over()


def test_results_come_in_the_order_of_tasks() -> None:
    assert list(fanned(doubled, [3, 1, 2], FREE)) == [6, 2, 4]
    assert list(fanned(doubled, [3, 1, 2], FREE, Elsewhere())) == [6, 2, 4]


def test_who_waits_goes_when_the_time_is_over() -> None:
    with ThreadPoolExecutor(1) as pool:
        tasks = [0.0, 8.0, 0.0]
        assert list(fanned(slow, tasks, Deadline.after(4.0), pool)) == [False]


def test_tasks_know_when_the_time_is_over() -> None:
    with ThreadPoolExecutor(1) as pool:
        (over,) = fanned(slow, [0.05], Deadline.after(60), pool)
        assert not over
        assert list(fanned(slow, [0.0], Deadline.at(time.time() - 1), pool)) in ([], [True])


@pytest.mark.parametrize("schedule", [None, "interleaved_1f1b"])
def test_a_plan_is_the_same_whatever_runs_its_searches(schedule: str | None) -> None:
    request = toy_request(
        graph=layered(6, batch=16),
        topology=topology(4, 2, flops_per_s=1e12, latency_ns=200),
        setup=Setup(),
        pipeline=Pipeline.model_validate({"ranks": 2, "schedule": schedule}),
    )
    elsewhere = Elsewhere()
    alone, fanned_out = plan(request).plan, plan(request, executor=elsewhere).plan
    assert alone is not None
    assert fanned_out == alone
    assert len(elsewhere.sizes) > 4
    # a stage's search is sent its own graph, and none the plans or tables of others
    assert max(elsewhere.sizes) < 2 * len(pickle.dumps(request))


def test_what_is_wrong_with_a_request_is_said_from_there_too() -> None:
    request = toy_request(
        graph=layered(4),
        topology=topology(4, 2),
        setup=Setup(microbatches=4),
        pipeline=Pipeline(ranks=4),
        pins=(Pin(op="1.linear", strategy={"n": ("node",)}),),
    )
    with pytest.raises(RequestError) as here:
        plan(request)
    with pytest.raises(RequestError) as there:
        plan(request, executor=Elsewhere())
    assert (there.value.detail, there.value.pointer) == (here.value.detail, here.value.pointer)
