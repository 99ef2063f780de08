"""The interval of a predicted step: where 80 % of published runs lie around their prediction."""

from __future__ import annotations

from meshwright.schema import Calibration, Plan, Setup
from meshwright.schema.stack import STACKS, interval_of, stack_ratio


def step_interval_ns(
    plan: Plan, setup: Setup, calibration: Calibration | None
) -> tuple[float, float] | None:
    """The quantiles 0.1 and 0.9 of the step in ns; None where no published runs say them.

    These are plans for training by the planner's own calibration, whole or for a stack. The
    calibration of a cluster has an error of its own. calibration: None for the planner's own.
    """
    if setup.phase != "training" or not (calibration is None or _is_published(calibration)):
        return None
    low, high = interval_of(setup.stack)
    return low * plan.cost.step_ns, high * plan.cost.step_ns


def _is_published(calibration: Calibration) -> bool:
    anchored = calibration.anchored
    if anchored is None:
        return calibration.name == "published"
    return any((anchored.stack, anchored.ratio) == (stack, stack_ratio(stack)) for stack in STACKS)
