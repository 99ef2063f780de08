"""Plans of one stage, also of stages that do not fit."""

from __future__ import annotations

from math import ceil

from meshwright.schema import Answer, Request
from meshwright_solver.common.deadline import Stop, never
from meshwright_solver.stage.search_progress import Report
from meshwright_solver.stage.stage_planner import plan_stage
from meshwright_solver.stage.stage_position import ALONE, StagePosition

# chosen: multiples of the least memory that a plan needs; the last is no limit in practice
_ROOM = (1.01, 1.25, 64.0)


def plan_anyway(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    position: StagePosition = ALONE,
) -> Answer:
    """The best plan of a stage, or of a stage that does not fit a plan near its least memory."""
    answer = plan_stage(request, report, stop, position)
    reason = answer.infeasible
    for room in _ROOM:
        if reason is None or reason.constraint != "memory" or reason.needed_bytes is None:
            return answer
        memory_bytes = ceil(reason.needed_bytes * room / request.setup.usable_memory)
        leanest = plan_stage(with_memory(request, memory_bytes), report, stop, position)
        if leanest.plan is not None:
            return leanest
    return answer


def with_memory(request: Request, memory_bytes: int) -> Request:
    """The request with this memory per device."""
    topology = request.topology
    device = topology.device.model_copy(update={"memory_bytes": memory_bytes})
    return request.model_copy(update={"topology": topology.model_copy(update={"device": device})})
