"""Plans that fit with all that passes by.

A search knows sums only: what rests, and what is saved. What passes by at the fullest moment is a
maximum that the judge finds once there is a plan. So

    1. search in all of the memory but for what passes by in every plan (`solver.bounds`): what it
       proves holds for all. Who needs no proof may leave more at once
    2. where the plan misses, search again in so much less, a few times
    3. where that leaves nothing, or never fits: the leanest plan there is

A plan that passes less by than all of these and fits may be missed; none that was seen to fit is.
Searches that can go on from where they are leave that room themselves (`Budget.over_bytes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from meshwright.schema import Answer
from solver.answer import Missed
from solver.mesh_outcome import TOLERANCE

# chosen: what a round leaves beside what the one before missed, of the memory: plans that differ in
# little miss by little over and over
_MARGINS = (0.0, 0.001, 0.004, 0.016, 0.064)
_ROUNDED = 2  # bytes: what is said to be needed is cut to whole ones


def plan_within_memory(
    search: Callable[[float], Answer | Missed], limit_bytes: float, spare_bytes: float = 0.0
) -> Answer:
    """search: leaving so many bytes, or more. limit_bytes: what a plan may hold. spare_bytes: what
    is left at first."""
    found = search(spare_bytes)
    if spare_bytes and isinstance(found, Answer) and found.plan is None:
        found = search(max(0.0, _room(found, limit_bytes, spare_bytes)))
    if isinstance(found, Answer):
        return found
    bound_ns, missed, spare = found.bound_ns, [found], 0.0
    for margin in _MARGINS:
        spare = found.spare_bytes + found.misfit.over_bytes + margin * limit_bytes
        if spare >= limit_bytes:
            break
        found = search(spare)
        if isinstance(found, Answer):
            break
        missed.append(found)
    if isinstance(found, Answer) and found.plan is None and found.infeasible is not None:
        room = _room(found, limit_bytes, spare)
        if found.infeasible.constraint == "memory" and 0 < room < spare:
            found = search(room)
            if isinstance(found, Missed):
                missed.append(found)
    fitting = [own.fitting for own in missed]
    return _best([found, *fitting], bound_ns) or _none(found, missed)


def _room(found: Answer, limit_bytes: float, spare_bytes: float) -> float:
    """What the leanest plan leaves, where none leaves so many bytes."""
    why = found.infeasible
    needed_bytes = None if why is None else why.needed_bytes
    return limit_bytes - (needed_bytes or limit_bytes) + spare_bytes - _ROUNDED


def _best(found: Sequence[Answer | Missed | None], bound_ns: float) -> Answer | None:
    """The fastest of the answers that have a plan."""
    planned = [
        (own.plan.cost.step_ns, place, own)
        for place, own in enumerate(found)
        if isinstance(own, Answer) and own.plan is not None
    ]
    return _with_bound(min(planned)[2], bound_ns) if planned else None


def _none(found: Answer | Missed, missed: Sequence[Missed]) -> Answer:
    """Why there is none: by how little the closest misses, where it is the memory."""
    why = found.infeasible if isinstance(found, Answer) else None
    if isinstance(found, Answer) and why is not None and why.constraint != "memory":
        return found
    closest = min(missed, key=lambda own: own.misfit.over_bytes)
    return Answer(infeasible=closest.misfit.infeasible())


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
