"""Plans that fit with all that passes by.

A search knows sums only: what rests, and what is saved. What passes by at the fullest moment is a
maximum that the judge finds once there is a plan. So

    1. search in all of the memory but for what passes by in every plan (`solver.bounds`): what it
       proves holds for all
    2. where the plan misses, search again in so much less, a few times
    3. where that leaves nothing, or never fits: the leanest plan there is

A plan that passes less by than all of these and fits may be missed; none that was seen to fit is.
"""

from __future__ import annotations

from collections.abc import Callable

from meshwright.schema import Answer
from solver.answer import Missed
from solver.mesh_outcome import TOLERANCE

# chosen: what a round leaves beside what the one before missed, of the memory: plans that differ in
# little miss by little over and over
_MARGINS = (0.0, 0.001, 0.004, 0.016)
_ROUNDED = 2  # bytes: what is said to be needed is cut to whole ones


def plan_within_memory(search: Callable[[float], Answer | Missed], limit_bytes: float) -> Answer:
    """search: leaving so many bytes, or more. limit_bytes: what a plan may hold."""
    found = search(0.0)
    if isinstance(found, Answer):
        return found
    bound_ns, closest, spare = found.bound_ns, found, 0.0
    for margin in _MARGINS:
        if isinstance(found, Answer):
            break
        spare = found.spare_bytes + found.misfit.over_bytes + margin * limit_bytes
        if spare >= limit_bytes:
            return Answer(infeasible=closest.misfit.infeasible())
        found = search(spare)
        closest = _closer(closest, found)
    if isinstance(found, Answer) and found.plan is None:
        why = found.infeasible
        if why is None or why.constraint != "memory":
            return found
        room = limit_bytes - (why.needed_bytes or limit_bytes) + spare - _ROUNDED
        if 0 < room < spare:
            found = search(room)
            closest = _closer(closest, found)
    if isinstance(found, Answer) and found.plan is not None:
        return _with_bound(found, bound_ns)
    return Answer(infeasible=closest.misfit.infeasible())


def _closer(closest: Missed, found: Answer | Missed) -> Missed:
    if isinstance(found, Answer):
        return closest
    return min(closest, found, key=lambda own: own.misfit.over_bytes)


def _with_bound(answer: Answer, bound_ns: float) -> Answer:
    """The answer with the bound of the search that had all of the memory."""
    plan = answer.plan
    assert plan is not None
    own = plan.search
    bound_ns = min(own.lower_bound_ns, bound_ns)
    gap = (own.cost_ns - bound_ns) / own.cost_ns if own.cost_ns else 0.0
    cheapest_ns = own.cost_ns - own.simplicity_ns - own.faster_ns
    proved = cheapest_ns - bound_ns <= TOLERANCE * cheapest_ns
    search = own.like(lower_bound_ns=bound_ns, gap=gap, outcome="optimal" if proved else "feasible")
    return answer.model_copy(update={"plan": plan.model_copy(update={"search": search})})
