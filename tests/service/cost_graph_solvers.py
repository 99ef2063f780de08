"""Tiny solvers of cost graphs for the tests of the service: answers known beforehand."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from meshwright.schema import RequestError
from meshwright.schema.cost_graph import CostGraphFile, CostGraphProgress, CostGraphSolution

COUNT = "COUNT_FILE"  # as in tests/service/planners.py, which imports the planner


def counted(file: CostGraphFile, *, seed: int = 0, **_: Any) -> CostGraphSolution:
    """Chooses the first strategy of every node; leaves a line in the file that COUNT names."""
    with Path(os.environ[COUNT]).open("a") as log:
        log.write(f"{seed}\n")
    return _first(file, "optimal", cost=3.0, lower_bound=3.0, gap=0.0, seed=seed)


def improving(
    file: CostGraphFile, *, seconds: float, report: Any, stop: Any, **_: Any
) -> CostGraphSolution:
    """Finds a choice that costs 1 less every 20 ms, the first for 1,000, until its time is over."""
    end = time.monotonic() + seconds
    cost = 1000.0
    while not stop() and time.monotonic() < end:
        report(CostGraphProgress(engine="lagrangian", cost=cost, lower_bound=1.0))
        cost -= 1
        time.sleep(0.02)
    return _first(file, "feasible", cost=cost, lower_bound=1.0, gap=1 - 1 / cost)


def fruitless(file: CostGraphFile, *, report: Any, stop: Any, **_: Any) -> CostGraphSolution:
    """Finds nothing until it is stopped."""
    while not stop():
        report(CostGraphProgress(engine="exact"))
        time.sleep(0.02)
    return CostGraphSolution(name=file.problem.name, status="unknown")


def endless_once(file: CostGraphFile, *, report: Any, **_: Any) -> CostGraphSolution:
    """At first searches until it is killed, and says its process id as the cost; then answers."""
    path = Path(os.environ[COUNT])
    if path.exists():
        return _first(file, "optimal", cost=3.0, lower_bound=3.0, gap=0.0)
    path.write_text("searched")
    while True:
        report(CostGraphProgress(engine="exact", cost=float(os.getpid())))
        time.sleep(0.02)


def refusing(file: CostGraphFile, **_: Any) -> CostGraphSolution:
    """Finds fault with the engine."""
    raise RequestError(f"the engine cannot search {file.problem.name!r}", pointer="/engine")


def broken(file: CostGraphFile, **_: Any) -> CostGraphSolution:
    """Has a bug."""
    raise ZeroDivisionError(file.problem.name)


def _first(file: CostGraphFile, status: Any, **numbers: Any) -> CostGraphSolution:
    choice = tuple(0 for _ in file.problem.nodes.costs)
    return CostGraphSolution(name=file.problem.name, status=status, choice=choice, **numbers)
