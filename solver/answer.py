"""From outcomes on meshes to an answer: the plan document of the best, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from meshwright.schema import Answer, Finding, Plan, Request, Search, Stage, step_batch
from meshwright.schema.collector import uncollected
from solver.dealing import with_owners
from solver.folded_plan import FoldedPlan, FoldedPlans
from solver.fusion import buckets_of
from solver.mesh_outcome import TOLERANCE, MeshOutcome, shown
from solver.mesh_search import MeshSearch
from solver.misfit import Misfit
from solver.moments.use import every_moment
from solver.notes import (
    borrowed_curves,
    busiest_experts,
    idle_axes,
    idle_wishes,
    in_turns,
    nothing_again,
    repeated_work,
    replaced_pins,
    sparse_updates,
    why_idle,
)
from solver.parameter_states import OPTIMIZER_SHARD_BYTES
from solver.why_none import why_none

NOT_ENDED = "the best plan so far of a search that had not ended"

# a plan of the best of all outcomes, with the steps forward that the search made
Write = Callable[
    [Request, Sequence[MeshOutcome], MeshOutcome, FoldedPlan, tuple[Finding, ...]], Plan
]


@dataclass(frozen=True, slots=True)
class Missed:
    """A search's best plan, which misses the memory with what passes by. spare_bytes: what was left
    for that. bound_ns: no plan that leaves so much costs less. fitting: the best on a mesh whose
    plan fits all the same."""

    misfit: Misfit
    spare_bytes: float
    bound_ns: float
    fitting: Answer | None = None


def answer_of(
    request: Request,
    outcomes: Sequence[MeshOutcome],
    search: MeshSearch,
    write: Write,
) -> Answer | Missed:
    """The best plan of all outcomes, as simple as may be; `plan_of` writes it in full."""
    solved = [o for o in outcomes if o.outcome.choice is not None]
    if not solved:
        return Answer(infeasible=why_none(outcomes, search))
    plans = search.plans
    best = fastest(solved, plans)
    folded = plans.of(best)
    if _fits(folded):
        return _written(request, outcomes, search, best, write, plans)
    problem = folded.models.problem
    batch = step_batch(request.graph, request.setup)
    misfit = Misfit(folded.memory_bytes, problem.microbatches, batch, bool(problem.remade))
    fitting = [own for own in solved if _fits(plans.of(own))]
    return Missed(
        misfit,
        problem.spare_bytes,
        _bound_ns(outcomes, best, folded),
        _written(request, outcomes, search, fastest(fitting, plans), write, plans)
        if fitting
        else None,
    )


def answer_so_far(
    request: Request,
    outcomes: Sequence[MeshOutcome],
    search: MeshSearch,
    write: Write,
) -> Answer | None:
    """The best plan of outcomes of a search that goes on, as it was found; None: none fits."""
    plans = search.plans
    solved = [own for own in outcomes if own.outcome.choice is not None]
    fitting = [own for own in solved if _fits(plans.of(own))]
    if not fitting:
        return None
    return _as_found(request, outcomes, search, fastest(fitting, plans), write, (NOT_ENDED,))


def _fits(folded: FoldedPlan) -> bool:
    return folded.over_bytes <= 0


def _written(
    request: Request,
    outcomes: Sequence[MeshOutcome],
    search: MeshSearch,
    best: MeshOutcome,
    write: Write,
    plans: FoldedPlans,
) -> Answer:
    """An outcome that fits as an answer, as simple as may be and still fits."""
    simple = search.simplified(best)
    best = simple if _fits(plans.of(simple)) else best
    return _as_found(request, outcomes, search, best, write)


def _as_found(
    request: Request,
    outcomes: Sequence[MeshOutcome],
    search: MeshSearch,
    best: MeshOutcome,
    write: Write,
    notes: Sequence[str] = (),
) -> Answer:
    """An outcome that fits as an answer."""
    replaced = replaced_pins(request.pins, search.pins.values())
    best = replace(best, notes=(*notes, *best.notes, *replaced))
    return Answer(
        plan=write(request, outcomes, best, search.plans.of(best), tuple(search.history.findings)),
        seconds=tuple(search.history.seconds),
    )


def fastest(solved: Sequence[MeshOutcome], plans: FoldedPlans) -> MeshOutcome:
    """Of outcomes with a choice, the one whose step is shortest, whatever its search minimised."""
    if len(solved) == 1:
        return solved[0]
    best = min(solved, key=lambda own: plans.of(own).cost.step_ns)
    cheapest_ns = min(own.outcome.cost_ns for own in solved)
    return replace(best, faster_ns=best.outcome.cost_ns - cheapest_ns)


def _bound_ns(outcomes: Sequence[MeshOutcome], best: MeshOutcome, folded: FoldedPlan) -> float:
    """No plan on any mesh that was searched has a smaller objective."""
    return min(
        _cheapest_ns(best, folded),
        *(
            o.outcome.lower_bound_ns
            for o in outcomes
            if not o.left_out and o.outcome.status != "infeasible"
        ),
    )


def _cheapest_ns(best: MeshOutcome, folded: FoldedPlan) -> float:
    """The least objective that was found."""
    return folded.cost.objective_ns - best.simplicity_ns - best.faster_ns


@uncollected
def plan_of(
    request: Request,
    outcomes: Sequence[MeshOutcome],
    best: MeshOutcome,
    folded: FoldedPlan,
    history: tuple[Finding, ...],
) -> Plan:
    """The plan of the best outcome, which has a choice, with what is proved by all of them."""
    models, unfolding, cost = folded.models, folded.unfolding, folded.cost
    portions, stages, problem = folded.portions, folded.stages, models.problem
    chosen = [
        (position, portion.assignment.ops[position], len(portion.copies))
        for portion in portions
        for position in portion.share.ops
    ]
    stage = with_owners(unfolding.stage(portions, stages))
    again = problem.remade.document([op.op for op in stage.ops])
    moments = every_moment(
        folded.moments, problem.in_flight, problem.copies, training=problem.training
    )
    searched = [outcome for outcome in outcomes if not outcome.left_out]
    bound, cheapest_ns = _bound_ns(outcomes, best, folded), _cheapest_ns(best, folded)
    gap = (cost.objective_ns - bound) / cost.objective_ns if cost.objective_ns else 0.0
    proved = cheapest_ns - bound <= TOLERANCE * (1 + 1e-9) * cheapest_ns
    return Plan(
        name=request.graph.name,
        graph=request.graph.id,
        topology=request.topology.id,
        setup=request.setup.id,
        calibration=problem.calibration.id,
        microbatches=problem.microbatches,
        stages=(_fused(stage, request).like(recompute=again, moments=moments),),
        cost=cost,
        search=Search(
            found_by=best.found_by,
            outcome="optimal" if proved else "feasible",
            cost_ns=cost.objective_ns,
            lower_bound_ns=bound,
            gap=gap,
            meshes=tuple(dict.fromkeys(shown(o.mesh) for o in searched)),
            history=history,
            faster_ns=best.faster_ns,
            simplicity_ns=best.simplicity_ns,
        ),
        repeated_work=repeated_work(models, chosen),
        unknown_kinds=tuple(sorted({op.op.kind for op in problem.ops if op.known is None})),
        padding=unfolding.paddings(portions, stages),
        notes=(
            *best.notes,
            *idle_wishes(request),
            *nothing_again(request, problem),
            *idle_axes(models, chosen, why_idle(request)),
            *busiest_experts(models, chosen),
            *in_turns(problem),
            *sparse_updates([stage]),
            *borrowed_curves(problem),
            *(
                f"mesh {shown(o.mesh)}{_with_chunks(o)} was not searched: {o.left_out}"
                for o in outcomes
                if o.left_out
            ),
            *request.graph.notes,
        ),
    )


def _fused(stage: Stage, request: Request) -> Stage:
    fusion = request.setup.fusion
    buckets = buckets_of(stage, request.graph, fusion, OPTIMIZER_SHARD_BYTES)
    return stage.like(buckets=buckets)


def _with_chunks(searched: MeshOutcome) -> str:
    return "" if searched.models.problem.uneven.mode == "refuse" else " with uneven chunks"
