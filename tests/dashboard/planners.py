"""Searches that go as a test wants it, of real plans."""

from __future__ import annotations

import time
from collections.abc import Callable

from meshwright.common.stop_signal import Stop, never
from meshwright.plugins.planner import Keep
from meshwright.schema import Answer, Progress, Request
from meshwright_solver.planning.planner import plan
from tests.service.planners import broken, dying

Report = Callable[[Progress], None]


def by_name(
    request: Request, report: Report | None = None, stop: Stop = never, *, keep: Keep
) -> Answer:
    """What the name of the graph says; else as `improving`."""
    if request.graph.name == "cut short":
        return cut_short(request, keep)
    found = {"broken": broken, "dying": dying}.get(request.graph.name, improving)
    return found(request, report, stop)


def cut_short(request: Request, keep: Keep) -> Answer:
    """Has a plan kept, and is then out of memory."""
    answer = plan(request)
    made: list[Answer] = []

    def make() -> Answer:
        made.append(answer)
        return answer

    while not made:
        keep(make)
        time.sleep(0.1)  # as a search that works
    raise MemoryError


def improving(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """Says that it comes closer and closer to the real plan, which it has once it is stopped."""
    answer = plan(request)
    assert answer.plan is not None
    cost_ns = answer.plan.cost.objective_ns
    done, share = 0, 1.0
    while not stop():
        done, share = done + 1, share * 0.9
        if report is not None:
            report(Progress(
                phase=f"mesh {done // 20}", done=done, total=1000,
                incumbent_ns=cost_ns * (1 + share), lower_bound_ns=cost_ns * (1 - share / 2),
            ))  # fmt: skip
        time.sleep(0.1)  # as a search that works
    return answer
