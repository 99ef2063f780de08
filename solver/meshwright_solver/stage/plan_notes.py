"""The notes of a plan, which a reader of its numbers needs."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.schema import Constraints, Request, Stage
from meshwright_solver.evaluation.notes import (
    Chosen,
    borrowed_curves,
    busiest_experts,
    empty_recompute,
    idle_axes,
    ineffective_options,
    low_precision,
    microbatch_interleaving,
    sparse_updates,
)
from meshwright_solver.folding.mesh_outcome import MeshOutcome, shown
from meshwright_solver.stage.engines.registry import portfolio_of
from meshwright_solver.stage.mesh_space import keeps_all_reduce


def plan_notes(
    request: Request,
    outcomes: Sequence[MeshOutcome],
    best: MeshOutcome,
    stage: Stage,
    chosen: Chosen,
) -> tuple[str, ...]:
    """All notes of the plan of the best outcome. stage: as planned. chosen: (position of op, its
    strategy, number of ops that it stands for)."""
    models = best.models
    problem = models.problem
    return (
        *best.notes,
        *_bound_fusion(request),
        *ineffective_options(request),
        *empty_recompute(request, problem),
        *idle_axes(models, chosen, why_idle(request)),
        *busiest_experts(models, chosen),
        *low_precision(models),
        *microbatch_interleaving(problem),
        *sparse_updates([stage]),
        *borrowed_curves(problem),
        *(
            f"mesh {shown(outcome.mesh)}{_with_chunks(outcome)} was not searched: "
            f"{outcome.left_out}"
            for outcome in outcomes
            if outcome.left_out
        ),
        *request.graph.notes,
    )


def _bound_fusion(request: Request) -> list[str]:
    if not keeps_all_reduce(request):
        return []
    return [
        "the stated fusion of all_reduce binds: gradients are all-reduced and parameters are not "
        "sharded. State --optimizer-level or a fusion of reduce_scatter to allow reduce-scatters"
    ]


def why_idle(request: Request) -> str:
    """The reason why a usable axis is idle: the optimum, or the request."""
    is_free = not request.pins and request.module is None and request.constraints == Constraints()
    if is_free and portfolio_of(request.solver).decides_choice:
        return "sharding more of it would cost more than it saves"
    return "pins, constraints or the search chosen leave it so, or more would not pay"


def _with_chunks(outcome: MeshOutcome) -> str:
    return "" if outcome.models.problem.uneven.mode == "refuse" else " with uneven chunks"
