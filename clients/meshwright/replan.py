"""Replanning: requests of jobs that run a plan, with the degrees of this plan as a choice."""

from __future__ import annotations

from meshwright.launch_options import uniform_of
from meshwright.schema import Pipeline, Request
from meshwright.schema.pipeline import NO_PIPELINE


def keeping_its_way(request: Request) -> Request:
    """The request with the degrees of its current plan, for the new devices."""
    before = request.before
    if before is None or before.degrees is not None:
        return request
    plan = before.plan
    uniform = uniform_of(plan, request.graph, before.setup)
    degrees = (plan.wishes.degrees or uniform.degrees).model_copy(update={"dp": None})
    pipeline = NO_PIPELINE
    if plan.schedule is not None:
        pipeline = Pipeline(
            ranks=plan.schedule.ranks,
            schedule=plan.schedule.kind,
            stages_per_rank=plan.schedule.stages_per_rank,
        )
    before = before.model_copy(update={"degrees": degrees, "pipeline": pipeline})
    return request.model_copy(update={"before": before})
