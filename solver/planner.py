"""The planner: from a request to a plan."""

from __future__ import annotations

from meshwright.schema import Answer, Request
from solver import stage_planner
from solver.deadline import Stop, never
from solver.host_limit import within_host
from solver.pipeline.planner import check_pipeline, plan_pipeline
from solver.stage_planner import Report, plan_stage
from solver.stated.planner import check_stated, plan_stated

__all__ = ["check", "plan"]


def check(request: Request) -> None:
    """Raise what `plan` would raise for bad input, without searching."""
    if request.degrees is not None:
        check_stated(request)
    elif request.pipeline.ranks == 1:
        stage_planner.check(request)
    else:
        check_pipeline(request)


def plan(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    """The best plan for a request, or why there is none; raises MeshwrightError for bad input.

    stop: asked now and then; once it says so, the best plan so far is the answer.
    """
    answer = _answer(request, report, stop)
    if answer.plan is None:
        return answer
    # searches ask one another for more and less than was wished
    plan = answer.plan.model_copy(update={"wishes": request.wishes})
    return answer.model_copy(update={"plan": plan})


def _answer(request: Request, report: Report | None, stop: Stop) -> Answer:
    if request.degrees is not None:
        return plan_stated(request, report, stop)
    if request.pipeline.ranks == 1:
        return within_host(plan_stage(request, report, stop), request)
    return within_host(plan_pipeline(request, report, stop), request)
