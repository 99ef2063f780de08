"""Predictions for the rows of a table: the step, its interval and the memory of the stated plan."""

from __future__ import annotations

import math
from dataclasses import dataclass

from meshwright.plugins import Planner, find_planner
from meshwright.reports.step_interval import step_interval_ns
from meshwright.runs.request import request_of
from meshwright.runs.strategy import strategy_of
from meshwright.runs.table import NotPredictable, Row
from meshwright.schema import MeshwrightError, Plan, Recompute, Request, Unavailable

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction for a row, or the reason why there is none.

    step_s, low_s, high_s: the step and the interval in which 80 % of published steps lie, seconds.
    memory_bytes: of the device with the highest peak, without the reserve. note: what the row does
    not say and a guess stands for.
    """

    row: Row
    step_s: float = math.nan
    low_s: float = math.nan
    high_s: float = math.nan
    memory_bytes: float = math.nan
    fits: bool = False
    note: str = ""
    reason: str = ""


def predict(row: Row, planner: Planner | None = None) -> Prediction:
    """The prediction for a row. Raises Unavailable where no planner is installed."""
    planner = planner or find_planner()
    try:
        request, note = request_of(row)
        plan = _plan(request, planner)
        strategy = strategy_of(row)
        if not strategy.is_microbatch_stated:
            plan = _with_fitting_microbatch(plan, request, planner, strategy.microbatch)
        fits = _fits(plan)
        if not fits and not strategy.is_recompute_stated:
            again = request.model_copy(update={"recompute": Recompute(policy="full")})
            fits = _fits(_plan(again, planner))
    except Unavailable:
        raise
    except (NotPredictable, MeshwrightError) as error:
        return Prediction(row, reason=str(error))
    cost = plan.cost
    low, high = step_interval_ns(plan, request.setup, None) or (math.nan, math.nan)
    held = cost.memory_bytes.total - cost.memory_bytes.reserved
    return Prediction(
        row, cost.step_ns / NS_PER_S, low / NS_PER_S, high / NS_PER_S, float(held), fits, note
    )


def _plan(request: Request, planner: Planner) -> Plan:
    answer = planner(request)
    if answer.plan is None:
        raise NotPredictable(answer.infeasible.detail if answer.infeasible else "no plan")
    return answer.plan


def _with_fitting_microbatch(
    plan: Plan, request: Request, planner: Planner, microbatch: int
) -> Plan:
    """The plan with a microbatch that nobody stated halved as long as it does not fit."""
    while not _fits(plan) and microbatch > 1:
        smaller = microbatch // 2
        count = (request.setup.microbatches or 1) * microbatch // smaller
        setup = request.setup.model_copy(update={"microbatches": count})
        request, microbatch = request.model_copy(update={"setup": setup}), smaller
        plan = _plan(request, planner)
    return plan


def _fits(plan: Plan) -> bool:
    return plan.cost.memory_bytes.total <= plan.cost.memory_bytes.capacity
