"""Plans of pipelines."""

from __future__ import annotations

from meshwright.schema import Answer, InvalidInput, Request
from solver.deadline import Stop, never
from solver.stage_planner import Report


def plan_pipeline(request: Request, report: Report | None = None, stop: Stop = never) -> Answer:
    raise InvalidInput("pipelines are not planned yet")
