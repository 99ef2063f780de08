"""Retries of a search until a plan fits together with its transient memory.

A search knows sums only: memory at rest, and saved activations. Transient memory at the peak is a
maximum, which the evaluator finds once there is a plan. So

    1. search in all of the memory except the transient memory of every plan
       (`meshwright_solver.stage.lower_bounds`): its proof holds for all plans. A caller that needs
       no proof may reserve more at once
    2. if the plan exceeds the memory, search again with the excess in reserve, a few times
    3. if the reserve leaves nothing, or no plan fits: the leanest plan
    4. if that does not fit either, the search limits transient memory as well: with the reserve,
       and no single tensor above it that is copied, gathered, reduced or redistributed. Costs do
       not distinguish such plans where all is start-up time

Several transient tensors at once, and uneven shards, may still exceed the memory. A plan that is
known to fit is never lost. Searches that can continue from their state enlarge the reserve
themselves (`SearchBudget.over_bytes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from meshwright.schema import Answer
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.stage.answer import MemoryMiss

# chosen: the reserve of a round in addition to the excess of the one before, of the memory: plans
# that differ little exceed it by little again and again
_MARGINS = (0.0, 0.001, 0.004, 0.016, 0.064, 0.256)
_NARROWINGS = 8  # chosen: rounds in which the search limits transient memory as well
_NARROWER = 0.75  # chosen: where the needed memory is not known closely
_ROUNDED = 2  # bytes: reported needs are rounded down to whole bytes


@dataclass(frozen=True, slots=True)
class Room:
    """The least reserve of a search, and the most bytes of one transient tensor."""

    spare_bytes: float = 0.0
    moved_bytes: float = inf


Search = Callable[[Room], Answer | MemoryMiss]


def plan_within_memory(search: Search, limit_bytes: float, spare_bytes: float = 0.0) -> Answer:
    """search: with at least this reserve. limit_bytes: the memory of a plan. spare_bytes: the
    first reserve."""
    search = _once(search)
    result = search(Room(spare_bytes))
    if spare_bytes and isinstance(result, Answer) and result.plan is None:
        result = search(Room(max(0.0, _room(result, limit_bytes, spare_bytes))))
    if isinstance(result, Answer):
        return result
    bound_ns, misses, spare = result.bound_ns, [result], 0.0
    for margin in _MARGINS:
        spare = result.spare_bytes + result.misfit.over_bytes + margin * limit_bytes
        if spare >= limit_bytes:
            break
        result = search(Room(spare))
        if isinstance(result, Answer):
            break
        misses.append(result)
    if isinstance(result, Answer) and result.plan is None and result.infeasible is not None:
        room = _room(result, limit_bytes, spare)
        if _is_short(result) and 0 < room < spare:
            result = search(Room(room))
            if isinstance(result, MemoryMiss):
                misses.append(result)
    fitting = [miss.fitting for miss in misses]
    best = _best([result, *fitting], bound_ns)
    if best is None and (isinstance(result, MemoryMiss) or _is_short(result)):
        best = _best([_narrowed(search, limit_bytes)], bound_ns)
    return best or _infeasible(result, misses)


def _once(search: Search) -> Search:
    """The search with a cache: rounds return to the same reserve."""
    known: dict[Room, Answer | MemoryMiss] = {}

    def cached_search(room: Room) -> Answer | MemoryMiss:
        if room not in known:
            known[room] = search(room)
        return known[room]

    return cached_search


def _narrowed(search: Search, limit_bytes: float) -> Answer | None:
    """The best plan in which no transient tensor exceeds the reserve. If the reserve leaves no
    room, the next reserve is that of the leanest plan: no plan lies between."""
    most = limit_bytes
    for _ in range(_NARROWINGS):
        spare = max(0.0, most - _ROUNDED)
        result = search(Room(spare, most))
        if isinstance(result, MemoryMiss):
            if result.fitting is not None:
                return result.fitting
            next_bytes = _NARROWER * most
        elif result.plan is not None:
            return result
        elif not _is_short(result):
            return None
        else:
            next_bytes = _room(result, limit_bytes, spare) + 2 * _ROUNDED
        if next_bytes < 0:
            return None
        most = next_bytes if next_bytes < most else _NARROWER * most
    return None


def _room(answer: Answer, limit_bytes: float, spare_bytes: float) -> float:
    """The reserve that the leanest plan leaves, where no plan leaves `spare_bytes`."""
    why = answer.infeasible
    needed_bytes = None if why is None else why.needed_bytes
    return limit_bytes - (needed_bytes or limit_bytes) + spare_bytes - _ROUNDED


def _best(results: Sequence[Answer | MemoryMiss | None], bound_ns: float) -> Answer | None:
    """The fastest of the answers that have a plan."""
    planned = [
        (result.plan.cost.step_ns, place, result)
        for place, result in enumerate(results)
        if isinstance(result, Answer) and result.plan is not None
    ]
    return _with_bound(min(planned)[2], bound_ns) if planned else None


def _infeasible(result: Answer | MemoryMiss, misses: Sequence[MemoryMiss]) -> Answer:
    """The answer without a plan: the least excess over the memory, if memory is the reason."""
    if isinstance(result, Answer) and not _is_short(result):
        return result
    closest = min(misses, key=lambda miss: miss.misfit.over_bytes)
    return Answer(infeasible=closest.misfit.infeasible())


def _is_short(answer: Answer) -> bool:
    why = answer.infeasible
    return why is not None and why.constraint == "memory"


def _with_bound(answer: Answer, bound_ns: float) -> Answer:
    """The answer with the bound of the first search, which had all of the memory."""
    plan = answer.plan
    assert plan is not None
    plan_search = plan.search
    bound_ns = min(plan_search.lower_bound_ns, bound_ns)
    gap = (plan_search.cost_ns - bound_ns) / plan_search.cost_ns if plan_search.cost_ns else 0.0
    cheapest_ns = plan_search.cost_ns - plan_search.simplicity_ns - plan_search.faster_ns
    proved = cheapest_ns - bound_ns <= TOLERANCE * cheapest_ns
    search = plan_search.like(
        lower_bound_ns=bound_ns, gap=gap, outcome="optimal" if proved else "feasible"
    )
    return answer.model_copy(update={"plan": plan.model_copy(update={"search": search})})
