"""Interleaved microbatches (copies), for requests that leave the choice to the search.

With two copies, one computes while the other communicates. This hides exposed activation traffic,
but each copy computes half a microbatch, less efficiently, or the step has more microbatches. If a
step has enough exposed activation traffic, both variants are planned and the faster one wins.
"""

from __future__ import annotations

from collections.abc import Callable

from meshwright.schema import Answer, Considered, Plan, Request, RequestPatch, SetupError
from meshwright_solver.planning.considered_order import with_considered_order
from meshwright_solver.planning.open_ranks import with_ranks
from meshwright_solver.stage.mesh_alternatives import planned_why
from meshwright_solver.stage.request_patches import of_wider_request

HALVES = 2
WORTH = 0.01  # chosen: share of exposed activation traffic in a step, the upper bound of the gain


def check_turns(request: Request) -> None:
    """Raise SetupError for requests for which interleaved microbatches are not planned."""
    if with_ranks(request).pipeline.ranks != 1:
        raise SetupError(
            "microbatches that take turns within a pipeline are not planned. Use copies 1 or no "
            "pipeline",
            pointer="/copies",
        )
    if request.constraints.offload != "none":
        raise SetupError(
            f"offload {request.constraints.offload} beside microbatches that take turns is not "
            "planned. Use copies 1 or offload none",
            pointer="/copies",
        )


def without_turns(request: Request) -> Request:
    """The request with copies 1 if it leaves copies open."""
    return with_copies(request, 1) if request.setup.copies == "auto" else request


def in_turns_or_not(request: Request, plan: Callable[[Request], Answer]) -> Answer:
    """The faster answer of sequential and interleaved microbatches."""
    alone = plan(with_copies(request, 1))
    if alone.plan is None or not _may_pay(alone.plan):
        return answering(request, alone, 1)
    try:
        check_turns(request)
        turns = plan(with_copies(request, HALVES))
    except SetupError:  # the microbatches, the graph or another wish rules them out
        return answering(request, alone, 1)
    if turns.plan is None or turns.plan.cost.step_ns >= alone.plan.cost.step_ns:
        return answering(request, alone, 1, turns)
    return answering(request, turns, HALVES, alone)


def _may_pay(plan: Plan) -> bool:
    return plan.cost.exposed_ns.get("activation", 0.0) > WORTH * plan.cost.step_ns


def with_copies(request: Request, copies: int) -> Request:
    """The request with this number of interleaved microbatches."""
    setup = type(request.setup).from_dict({**request.setup.to_dict(), "copies": copies})
    return request.model_copy(update={"setup": setup})


def answering(request: Request, answer: Answer, copies: int, other: Answer | None = None) -> Answer:
    """The answer with the request's own setup, and with the other variant as considered."""
    if answer.plan is None:
        return answer
    answer = of_wider_request(answer, _patch(copies))
    assert answer.plan is not None
    search, best_ns = answer.plan.search, answer.plan.cost.step_ns
    if other is not None:
        ns, others = None if other.plan is None else other.plan.cost.step_ns, HALVES + 1 - copies
        why = other.infeasible.detail if other.infeasible else ""
        tried = Considered(
            configuration=copies_text(others),
            estimated_ns=ns or 0.0,
            cost_ns=ns,
            why=planned_why(ns, best_ns) if ns is not None else why,
            request_patch=_patch(others),
        )
        search = search.model_copy(update={"considered": (*search.considered, tried)})
    update = {"setup": request.setup.id, "copies": copies, "search": search}
    plan = with_considered_order(answer.plan.model_copy(update=update))
    return answer.model_copy(update={"plan": plan})


def copies_text(copies: object) -> str:
    """A number of interleaved microbatches, as the text of a considered configuration."""
    return f"copies {copies}"


def _patch(copies: int) -> RequestPatch:
    return {"setup": {"copies": copies}}
