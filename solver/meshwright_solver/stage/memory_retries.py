"""Plans that fit with all that passes by.

A search knows sums only: what rests, and what is saved. What passes by at the fullest moment is a
maximum that the judge finds once there is a plan. So

    1. search in all of the memory but for what passes by in every plan
    (`meshwright_solver.stage.lower_bounds`): what it
       proves holds for all. Who needs no proof may leave more at once
    2. where the plan misses, search again in so much less, a few times
    3. where that leaves nothing, or never fits: the leanest plan there is
    4. where that does not fit either, what passes by is searched as well: with so much left, and no
       single thing larger that is made for others, gathered, reduced or redistributed. Costs do not
       tell such plans apart where all is start-up time

Several things that pass by at once, and what is dealt out unevenly, may still be missed; no plan
that was seen to fit is. Searches that can go on from where they are leave that room themselves
(`SearchBudget.over_bytes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from meshwright.schema import Answer
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.stage.answer import Missed

# chosen: what a round leaves beside what the one before missed, of the memory: plans that differ in
# little miss by little over and over
_MARGINS = (0.0, 0.001, 0.004, 0.016, 0.064, 0.256)
_NARROWINGS = 8  # chosen: rounds in which what passes by is searched as well
_NARROWER = 0.75  # chosen: where what is needed is not said closely
_ROUNDED = 2  # bytes: what is said to be needed is cut to whole ones


@dataclass(frozen=True, slots=True)
class Room:
    """What a search leaves at the least, and the most that one thing which passes by may take."""

    spare_bytes: float = 0.0
    moved_bytes: float = inf


Search = Callable[[Room], Answer | Missed]


def plan_within_memory(search: Search, limit_bytes: float, spare_bytes: float = 0.0) -> Answer:
    """search: with so much room, or more. limit_bytes: what a plan may hold. spare_bytes: what
    is left at first."""
    search = _once(search)
    found = search(Room(spare_bytes))
    if spare_bytes and isinstance(found, Answer) and found.plan is None:
        found = search(Room(max(0.0, _room(found, limit_bytes, spare_bytes))))
    if isinstance(found, Answer):
        return found
    bound_ns, missed, spare = found.bound_ns, [found], 0.0
    for margin in _MARGINS:
        spare = found.spare_bytes + found.misfit.over_bytes + margin * limit_bytes
        if spare >= limit_bytes:
            break
        found = search(Room(spare))
        if isinstance(found, Answer):
            break
        missed.append(found)
    if isinstance(found, Answer) and found.plan is None and found.infeasible is not None:
        room = _room(found, limit_bytes, spare)
        if _is_short(found) and 0 < room < spare:
            found = search(Room(room))
            if isinstance(found, Missed):
                missed.append(found)
    fitting = [own.fitting for own in missed]
    best = _best([found, *fitting], bound_ns)
    if best is None and (isinstance(found, Missed) or _is_short(found)):
        best = _best([_narrowed(search, limit_bytes)], bound_ns)
    return best or _none(found, missed)


def _once(search: Search) -> Search:
    """The same, which knows what it found with a room before: rounds come back to some."""
    known: dict[Room, Answer | Missed] = {}

    def found(room: Room) -> Answer | Missed:
        if room not in known:
            known[room] = search(room)
        return known[room]

    return found


def _narrowed(search: Search, limit_bytes: float) -> Answer | None:
    """The best plan in which nothing is larger that passes by than what is left for it. Where that
    leaves no room, what the leanest plan leaves is the next to be tried: between, none is."""
    most = limit_bytes
    for _ in range(_NARROWINGS):
        spare = max(0.0, most - _ROUNDED)
        found = search(Room(spare, most))
        if isinstance(found, Missed):
            if found.fitting is not None:
                return found.fitting
            left = _NARROWER * most
        elif found.plan is not None:
            return found
        elif not _is_short(found):
            return None
        else:
            left = _room(found, limit_bytes, spare) + 2 * _ROUNDED
        if left < 0:
            return None
        most = left if left < most else _NARROWER * most
    return None


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
    if isinstance(found, Answer) and not _is_short(found):
        return found
    closest = min(missed, key=lambda own: own.misfit.over_bytes)
    return Answer(infeasible=closest.misfit.infeasible())


def _is_short(answer: Answer) -> bool:
    why = answer.infeasible
    return why is not None and why.constraint == "memory"


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
