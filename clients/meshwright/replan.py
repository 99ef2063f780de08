"""Requests of jobs that run under a plan: its way, in a few degrees, is one of the choices."""

from __future__ import annotations

from meshwright.launch import uniform_of
from meshwright.schema import Pipeline, Request


def keeping_its_way(request: Request) -> Request:
    """The request with the old plan's degrees in it, for its new devices."""
    before = request.before
    if before is None or before.degrees is not None:
        return request
    plan = before.plan
    found = uniform_of(plan, request.graph, before.setup)
    degrees = (plan.wishes.degrees or found.degrees).model_copy(update={"dp": None})
    pipeline = Pipeline()
    if plan.schedule is not None:
        pipeline = Pipeline(
            ranks=plan.schedule.ranks,
            schedule=plan.schedule.kind,
            stages_per_rank=plan.schedule.stages_per_rank,
        )
    kept = before.model_copy(update={"degrees": degrees, "pipeline": pipeline})
    return request.model_copy(update={"before": kept})
