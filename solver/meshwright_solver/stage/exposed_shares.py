"""Shares of traffic that a search counts, where those of the calibration mislead it.

The objective counts little of what parameters and gradients move, since work hides it. Work that is
too short for its links hides it no longer: then all of it counts. Between the two lie the shares
that a plan itself exposes. A plan that such a search finds is judged by its step, like every other.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from meshwright.schema import Answer, Exposed, Plan
from meshwright_solver.stage.faster_plan import with_faster_plan

LEAST = 0.01  # chosen: of equal plans the one that moves less
_NEAR = 0.1  # chosen: shares that differ by less are the same
# chosen: links that are slower than the work, and links about as fast
IN_FULL = Exposed(activation=1.0, parameter=1.0, gradient=1.0, once=1.0)
IN_PART = Exposed(activation=1.0, parameter=0.2, gradient=0.5, once=0.6)


def faster_answer(
    first: Answer, search: Callable[[Exposed], Answer], worth: float, beaten_ns: float = inf
) -> Answer:
    """The fastest of the first answer and those of searches with other shares.

    search: the answer with the given shares. All of them have the proof of the first answer. worth:
    the share of the step that gathers and reductions have to expose for a further search. It may
    save what they expose: without that, the step must be below `beaten_ns`.
    """
    best, tried = first, list[Exposed]()
    for shares in (IN_FULL, IN_PART, None):
        if best.plan is None or _waited_ns(best.plan) <= worth * best.plan.cost.step_ns:
            break
        if best.plan.cost.step_ns - _waited_ns(best.plan) >= beaten_ns:
            break
        counted = shares or measured_shares(best.plan)
        if not any(_are_near(counted, other) for other in tried):
            best = with_faster_plan(best, search(counted))
            tried.append(counted)
    return best


def measured_shares(plan: Plan) -> Exposed:
    """The share of each traffic that a plan exposes."""
    cost = plan.cost

    def share(traffic: str) -> float:
        moved_ns = cost.communication_ns.get(traffic, 0.0)
        exposed_ns = cost.exposed_ns.get(traffic, 0.0)
        return max(LEAST, min(1.0, exposed_ns / moved_ns)) if moved_ns else LEAST

    parameter, gradient = share("parameter"), share("gradient")
    return Exposed(
        activation=1.0, parameter=parameter, gradient=gradient, once=max(parameter, gradient)
    )


def _waited_ns(plan: Plan) -> float:
    """The time of the step that waits for parameters and gradients."""
    exposed = plan.cost.exposed_ns
    return exposed.get("parameter", 0.0) + exposed.get("gradient", 0.0)


def _are_near(one: Exposed, other: Exposed) -> bool:
    pairs = zip(one.model_dump().values(), other.model_dump().values(), strict=True)
    return all(abs(a - b) < _NEAR for a, b in pairs)
