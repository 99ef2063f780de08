"""Tiny planners for the tests of the service: real processes, answers known beforehand."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from meshwright.schema import (
    Answer,
    Cost,
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

Report = Callable[[Progress], None]
COUNT = "COUNT_FILE"


def tiny(request: Request, report: Report | None = None) -> Answer:
    """Replicates everything; a step takes as many nanoseconds as the graph has ops."""
    if report is not None:
        report(Progress(phase="counting", done=1, total=2))
    print("a library prints this", flush=True)  # noqa: T201  must not disturb the pipe
    level = request.topology.levels[-1]
    step_ns = float(len(request.graph.ops))
    stage = Stage(
        mesh=Mesh(axes=(MeshAxis(name=Axis(level.name), size=level.size, level=level.name),)),
        ops=tuple(OpPlan(op=op.name, kind=op.kind, rule=None) for op in request.graph.ops),
        tensors=(),
        parameters=(),
        redistributions=(),
    )
    plan = Plan(
        name=request.graph.name,
        graph=request.graph.id,
        topology=request.topology.id,
        setup=request.setup.id,
        calibration="cal_tiny",
        stages=(stage,),
        cost=Cost(
            step_ns=step_ns,
            compute_ns=step_ns,
            communication_ns={},
            exposed_ns={},
            memory_bytes=MemoryUse(capacity=request.topology.device.memory_bytes),
        ),
        search=Search(
            solver="tiny",
            found_by="tiny",
            outcome="optimal",
            cost_ns=step_ns,
            lower_bound_ns=step_ns,
            gap=0.0,
            meshes=("all",),
        ),
    )
    return Answer(plan=plan)


def counted(request: Request, report: Report | None = None) -> Answer:
    """As tiny; leaves a line for every search in the file that COUNT names."""
    with Path(os.environ[COUNT]).open("a") as file:
        file.write("searched\n")
    return tiny(request, report)


def infeasible(request: Request, report: Report | None = None) -> Answer:
    """Never fits."""
    del request, report
    return Answer(
        infeasible=Infeasible(
            constraint="memory", detail="too big", needed_bytes=2048, available_bytes=1024
        )
    )


def refusing(request: Request, report: Report | None = None) -> Answer:
    """Finds fault with the request."""
    del report
    raise RequestError(f"no op of {request.graph.name!r} matches the pin", pointer="/pins/0")


def broken(request: Request, report: Report | None = None) -> Answer:
    """Has a bug."""
    del report
    raise ZeroDivisionError(f"a bug in {request.graph.name}")


def dying(request: Request, report: Report | None = None) -> Answer:
    """Ends as the kernel ends what needs too much memory."""
    del request, report
    os.kill(os.getpid(), 9)
    raise AssertionError("not reached")


def endless(request: Request, report: Report | None = None) -> Answer:
    """Searches until it is killed; says its process id in the progress."""
    del request
    while True:
        if report is not None:
            report(Progress(phase=f"pid {os.getpid()}", done=0, total=1, incumbent_ns=5.0))
        time.sleep(0.02)
