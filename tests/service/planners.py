"""Tiny planners for the tests of the service: real processes, answers known beforehand."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from meshwright.common.process_pool import processes
from meshwright.common.stop_signal import Stop, never
from meshwright.plugins.planner import Keep, find_planner
from meshwright.schema import (
    Answer,
    Cost,
    Finding,
    Infeasible,
    MemoryUse,
    Mesh,
    MeshAxis,
    OpPlan,
    Plan,
    Progress,
    Request,
    RequestError,
    Search,
    Stage,
)
from meshwright.schema.mesh import Axis
from meshwright_service.processes.child_main import answer
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.pipeline.parallel_map import fanned
from meshwright_solver.planning.build import planner_build

Report = Callable[[Progress], None]
COUNT = "COUNT_FILE"
T = TypeVar("T")
MOST = 4  # busy processes of `crowded`


def told(environment: dict[str, str], *given: Any) -> None:
    """A child process that sees this environment."""
    os.environ.update(environment)
    answer(*given)


def tiny(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """Replicates everything; a step takes as many nanoseconds as the graph has ops."""
    del stop
    if report is not None:
        report(Progress(phase="counting", done=1, total=2))
    print("a library prints this", flush=True)  # noqa: T201  must not disturb the pipe
    step_ns = float(len(request.graph.ops))
    search = Search(
        found_by="tiny",
        outcome="optimal",
        cost_ns=step_ns,
        lower_bound_ns=step_ns,
        gap=0.0,
        meshes=("all",),
    )
    return Answer(plan=_replicated(request, search))


def with_build(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """As `tiny`, with the build of the planner in the plan."""
    answer = tiny(request, report, stop)
    assert answer.plan is not None
    plan = answer.plan.model_copy(update={"planner_build": planner_build()})
    return answer.model_copy(update={"plan": plan})


def improving(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """Finds a plan that costs 1 % less every 20 ms, the first for 100 ns, until it is stopped."""
    started, cost_ns = time.monotonic(), 100.0
    history: list[Finding] = []
    seconds: list[float] = []
    _say_running()
    while not history or not stop():
        history.append(Finding(search="improving", mesh=f"mesh {len(history)}", cost_ns=cost_ns))
        seconds.append(time.monotonic() - started)
        _report(report, incumbent_ns=cost_ns, lower_bound_ns=1.0)
        cost_ns *= 0.99
        time.sleep(0.02)
    search = Search(
        found_by="improving",
        outcome="feasible",
        cost_ns=history[-1].cost_ns,
        lower_bound_ns=1.0,
        gap=1 - 1 / history[-1].cost_ns,
        meshes=("all",),
        history=tuple(history),
    )
    return Answer(plan=_replicated(request, search), seconds=tuple(seconds))


def keeping(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    executor: Executor | None = None,
    *,
    keep: Keep,
) -> Answer:
    """Keeps a plan of 50 ns, then one of 40 ns; then searches until it is killed."""
    del executor
    for cost_ns in (50.0, 40.0):
        keep(partial(_found, request, cost_ns))
    return endless(request, report, stop)


def keeping_then_greedy(request: Request, *_: Any, keep: Keep) -> Answer:
    """Keeps a plan of 40 ns, then wants a pebibyte."""
    keep(partial(_found, request, 40.0))
    return greedy(request)


def keeping_then_broken_pool(request: Request, *_: Any, keep: Keep) -> Answer:
    """Keeps a plan of 40 ns, then loses a process that searches for it; leaves a line each time."""
    keep(partial(_found, request, 40.0))
    with Path(os.environ[COUNT]).open("a") as file:
        file.write("searched\n")
    with processes(2) as executor:
        assert executor is not None
        executor.submit(_killed).result()
    raise AssertionError("not reached")


def forgetful(
    request: Request, report: Report | None = None, stop: Stop = never, *, keep: Keep
) -> Answer:
    """At first keeps a plan of 40 ns and searches until it is killed; then finds one of 60 ns."""
    path = Path(os.environ[COUNT])
    if path.exists():
        return _found(request, 60.0)
    path.write_text("searched")
    keep(partial(_found, request, 40.0))
    return endless(request, report, stop)


def _found(request: Request, cost_ns: float) -> Answer:
    search = Search(
        found_by="keeping",
        outcome="feasible",
        cost_ns=cost_ns,
        lower_bound_ns=1.0,
        gap=1 - 1 / cost_ns,
        meshes=("all",),
    )
    return Answer(plan=_replicated(request, search), seconds=(cost_ns,))


def _killed() -> None:
    os.kill(os.getpid(), 9)


def fruitless(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """Finds nothing until it is stopped."""
    del request
    _say_running()
    while not stop():
        _report(report)
        time.sleep(0.02)
    return Answer(infeasible=Infeasible(constraint="time", detail="the time budget ended"))


def counted(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """As tiny; leaves a line for every search in the file that COUNT names."""
    del stop
    with Path(os.environ[COUNT]).open("a") as file:
        file.write("searched\n")
    return tiny(request, report)


def planning(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """The planner itself; says in the file that COUNT names when it begins and ends."""
    with Path(os.environ[COUNT]).open("a") as file:
        print("begun", file=file, flush=True)
        answer = find_planner()(request, report, stop)
        print("ended", file=file, flush=True)
    return answer


def slow(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """As tiny after a second; says in the file that COUNT names when it begins and ends."""
    del stop
    with Path(os.environ[COUNT]).open("a") as file:
        print("begun", file=file, flush=True)
        time.sleep(1)
        print("ended", file=file, flush=True)
    return tiny(request, report)


def infeasible(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """Never fits."""
    del request, report, stop
    return Answer(
        infeasible=Infeasible(
            constraint="memory", detail="too big", needed_bytes=2048, available_bytes=1024
        )
    )


def refusing(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """Finds fault with the request."""
    del report, stop
    raise RequestError(f"no op of {request.graph.name!r} matches the pin", pointer="/pins/0")


def broken(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """Has a bug."""
    del report, stop
    raise ZeroDivisionError(f"a bug in {request.graph.name}")


def greedy(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """Wants a pebibyte."""
    taken = np.ones(2**50, dtype=np.uint8)
    return tiny(request, report, stop) if taken[-1] else fruitless(request, report, stop)


def dying(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """Ends as a fault in compiled code ends a process: without a word."""
    del request, report, stop
    os.abort()


def endless(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """Searches until it is killed, asked to stop or not; says its process id in the progress."""
    del request
    _say_running()
    while True:
        _report(report, incumbent_ns=5.0)
        stop()
        time.sleep(0.02)


def endless_or_tiny(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """What the name of the graph says."""
    planner = endless if request.graph.name == "endless" else tiny
    return planner(request, report, stop)


def noting(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    executor: Executor | None = None,
) -> Answer:
    """The planner itself; every search that another process makes for it leaves a line with that
    process's id in the file that COUNT names."""
    from meshwright_solver.planning.planner import plan

    return plan(request, report, stop, None if executor is None else _Noting(executor))


class _Noting(Executor):
    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    def submit(self, work: Callable[..., T], /, *args: Any, **more: Any) -> Future[T]:
        return self.executor.submit(_noted, work, *args, **more)


def _noted(work: Callable[..., T], /, *args: Any, **more: Any) -> T:
    with Path(os.environ[COUNT]).open("a") as file:
        file.write(f"{os.getpid()}\n")
    return work(*args, **more)


def crowded(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    executor: Executor | None = None,
) -> Answer:
    """As endless, with as many other processes busy as it is given."""
    assert executor is not None
    for _ in range(MOST):
        executor.submit(time.sleep, 60)
    return endless(request, report, stop)


def far(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    executor: Executor | None = None,
) -> Answer:
    """Has others search until they are stopped, who say so in the file that COUNT names."""
    assert executor is not None
    list(fanned(_until_stopped, range(2), Deadline.after(None, stop), executor))
    return fruitless(request, report, stop)


def _until_stopped(_: int, deadline: Deadline) -> None:
    with Path(os.environ[COUNT]).open("a") as file:
        print("begun", file=file, flush=True)
        while not deadline.is_over():
            time.sleep(0.02)
        print("ended", file=file, flush=True)


def _say_running() -> None:
    print("the search runs", file=sys.stderr, flush=True)  # noqa: T201  for who waits for that


def _report(report: Report | None, **costs: float) -> None:
    if report is not None:
        report(Progress(phase=f"pid {os.getpid()}", done=0, total=1, **costs))


def _replicated(request: Request, search: Search) -> Plan:
    level = request.topology.levels[-1]
    stage = Stage(
        mesh=Mesh(axes=(MeshAxis(name=Axis(level.name), size=level.size, level=level.name),)),
        ops=tuple(OpPlan(op=op.name, kind=op.kind, rule=None) for op in request.graph.ops),
        tensors=(),
        parameters=(),
        redistributions=(),
    )
    return Plan(
        name=request.graph.name,
        graph=request.graph.id,
        topology=request.topology.id,
        setup=request.setup.id,
        calibration="cal_tiny" if request.calibration is None else request.calibration.id,
        stages=(stage,),
        cost=Cost(
            step_ns=search.cost_ns,
            objective_ns=search.cost_ns,
            compute_ns=search.cost_ns,
            communication_ns={},
            exposed_ns={},
            memory_bytes=MemoryUse(capacity=request.topology.device.memory_bytes),
        ),
        search=search,
    )
