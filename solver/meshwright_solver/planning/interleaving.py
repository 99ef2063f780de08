"""Microbatches that take turns, where a request leaves it to the search whether they do.

In turns one computes while the other sends, so it can pay where a step waits for activations; and
the halves of a batch compute less well each, or need more of them. So both are planned, if there is
something to gain, and the faster step wins.
"""

from __future__ import annotations

from collections.abc import Callable

from meshwright.schema import Answer, Considered, Plan, Request, RequestPatch, SetupError
from meshwright_solver.stage.request_patches import of_wider_request

HALVES = 2
WORTH = 0.01  # chosen: of a step, waiting for activations; no more than that can be gained


def check_turns(request: Request) -> None:
    """Raise SetupError where microbatches that take turns are not planned."""
    if request.pipeline.ranks != 1:
        raise SetupError(
            "microbatches that take turns within a pipeline are not planned; copies 1 or no "
            "pipeline would do",
            pointer="/copies",
        )
    if request.constraints.offload != "none":
        raise SetupError(
            f"offload {request.constraints.offload} beside microbatches that take turns is not "
            "planned; copies 1 or offload none would do",
            pointer="/copies",
        )


def without_turns(request: Request) -> Request:
    """The request that leaves nothing open: microbatches one after the other."""
    return with_copies(request, 1) if request.setup.copies == "auto" else request


def in_turns_or_not(request: Request, plan: Callable[[Request], Answer]) -> Answer:
    """The faster of both, as an answer to the request."""
    alone = plan(with_copies(request, 1))
    if alone.plan is None or not _may_pay(alone.plan):
        return answering(request, alone, 1)
    try:
        check_turns(request)
        turns = plan(with_copies(request, HALVES))
    except SetupError:  # its microbatches, its graph or what else is asked for cannot
        return answering(request, alone, 1)
    if turns.plan is None or turns.plan.cost.step_ns >= alone.plan.cost.step_ns:
        return answering(request, alone, 1, turns)
    return answering(request, turns, HALVES, alone)


def _may_pay(plan: Plan) -> bool:
    return plan.cost.exposed_ns.get("activation", 0.0) > WORTH * plan.cost.step_ns


def with_copies(request: Request, copies: int) -> Request:
    """The request whose setup says how many microbatches take turns."""
    setup = type(request.setup).from_dict({**request.setup.to_dict(), "copies": copies})
    return request.model_copy(update={"setup": setup})


def answering(request: Request, own: Answer, copies: int, other: Answer | None = None) -> Answer:
    """The answer with the request's own setup, and what else was tried."""
    if own.plan is None:
        return own
    own = of_wider_request(own, _patch(copies))
    assert own.plan is not None
    search, best_ns = own.plan.search, own.plan.cost.step_ns
    if other is not None:
        ns, others = None if other.plan is None else other.plan.cost.step_ns, HALVES + 1 - copies
        why = other.infeasible.detail if other.infeasible else ""
        tried = Considered(
            configuration=f"copies {others}",
            estimated_ns=ns or 0.0,
            cost_ns=ns,
            why=f"takes {ns / best_ns:.3f} times" if ns is not None else why,
            request_patch=_patch(others),
        )
        search = search.model_copy(update={"considered": (*search.considered, tried)})
    update = {"setup": request.setup.id, "copies": copies, "search": search}
    return own.model_copy(update={"plan": own.plan.model_copy(update=update)})


def _patch(copies: int) -> RequestPatch:
    return {"setup": {"copies": copies}}
