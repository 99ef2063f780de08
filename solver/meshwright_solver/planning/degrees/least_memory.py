"""Plans of one stage that are answered whether they fit or not."""

from __future__ import annotations

from math import ceil

from meshwright.schema import Answer, Request
from meshwright_solver.common.deadline import Stop, never
from meshwright_solver.stage.search_progress import Report
from meshwright_solver.stage.stage_planner import plan_stage
from meshwright_solver.stage.stage_position import ALONE, StagePosition

# chosen: over the least memory that a plan needs; the last holds whatever a search may want
_ROOM = (1.01, 1.25, 64.0)


def plan_anyway(
    request: Request,
    report: Report | None = None,
    stop: Stop = never,
    position: StagePosition = ALONE,
) -> Answer:
    """The best plan of a stage; where none fits, one that needs hardly more than it has to, for
    devices of as much memory."""
    answer = plan_stage(request, report, stop, position)
    why = answer.infeasible
    for room in _ROOM:
        if why is None or why.constraint != "memory" or why.needed_bytes is None:
            return answer
        held = ceil(why.needed_bytes * room / request.setup.usable_memory)
        found = plan_stage(with_memory(request, held), report, stop, position)
        if found.plan is not None:
            return found
    return answer


def with_memory(request: Request, memory_bytes: int) -> Request:
    """The request for devices of so much memory."""
    topology = request.topology
    device = topology.device.model_copy(update={"memory_bytes": memory_bytes})
    return request.model_copy(update={"topology": topology.model_copy(update={"device": device})})
