"""Shares of traffic that a search counts, where those of the calibration mislead it.

The objective counts little of what parameters and gradients move, since work hides it. Work that is
too short for its links hides it no longer: then all of it counts. Between the two lie the shares
that a plan itself exposes. A plan that such a search finds is judged by its step, like every other.
"""

from __future__ import annotations

from collections.abc import Callable

from meshwright.schema import Answer, Exposed, Plan
from meshwright_solver.stage.faster_plan import with_faster_plan

# chosen: the share of the step that gathers and reductions have to expose, for another search
WORTH = 0.01
# chosen: searches with measured shares; they mostly agree after one
_ROUNDS = 2
_NEAR = 0.1  # chosen: shares that differ by less are the same
IN_FULL = Exposed(activation=1.0, parameter=1.0, gradient=1.0, once=1.0)


def faster_answer(first: Answer, search: Callable[[Exposed], Answer]) -> Answer:
    """The fastest of the first answer and those of searches with other shares.

    search: the answer with the given shares. All of them have the proof of the first answer.
    """
    best, tried = first, [] if first.plan is None else [IN_FULL]
    for shares in tried:
        if best.plan is None or not _is_worth_it(best.plan):
            break
        best = with_faster_plan(best, search(shares))
        if len(tried) <= _ROUNDS and best.plan is not None:
            measured = measured_shares(best.plan)
            if not any(_are_near(measured, other) for other in tried):
                tried.append(measured)  # is visited next
    return best


def measured_shares(plan: Plan) -> Exposed:
    """The share of each traffic that a plan exposes."""
    cost = plan.cost

    def share(traffic: str) -> float:
        moved_ns = cost.communication_ns.get(traffic, 0.0)
        exposed_ns = cost.exposed_ns.get(traffic, 0.0)
        return min(1.0, exposed_ns / moved_ns) if moved_ns else 0.0

    parameter, gradient = share("parameter"), share("gradient")
    return Exposed(
        activation=1.0, parameter=parameter, gradient=gradient, once=max(parameter, gradient)
    )


def _is_worth_it(plan: Plan) -> bool:
    exposed_ns = sum(
        plan.cost.exposed_ns.get(traffic, 0.0) for traffic in ("parameter", "gradient")
    )
    return exposed_ns > WORTH * plan.cost.step_ns


def _are_near(one: Exposed, other: Exposed) -> bool:
    pairs = zip(one.model_dump().values(), other.model_dump().values(), strict=True)
    return all(abs(a - b) < _NEAR for a, b in pairs)
