"""The answer of a stage: the plan of the best outcome on any mesh, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from meshwright.schema import Answer, Finding, Plan, Request, Search, Stage, step_batch
from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.evaluation.memory.memory_use import every_moment
from meshwright_solver.evaluation.memory_shortfall import Misfit
from meshwright_solver.evaluation.model_flops import model_flops
from meshwright_solver.evaluation.notes import repeated_work, replaced_pins
from meshwright_solver.folding.folded_plan import FoldedPlan, FoldedPlans
from meshwright_solver.folding.mesh_outcome import TOLERANCE, History, MeshOutcome, shown
from meshwright_solver.stage.infeasible_answer import why_none
from meshwright_solver.stage.mesh_alternatives import alternatives
from meshwright_solver.stage.mesh_search import MeshSearch
from meshwright_solver.stage.mesh_space import MeshSpaces
from meshwright_solver.stage.plan_notes import plan_notes
from meshwright_solver.stage.recompute.candidates import FULL
from meshwright_solver.stage.simplify import Simplified, simplified
from meshwright_solver.strategies.fusion import buckets_of
from meshwright_solver.strategies.parameter_owners import with_owners
from meshwright_solver.strategies.parameter_states import OPTIMIZER_SHARD_BYTES

NOT_ENDED = "the best plan so far of a search that had not ended"


def time_notes(request: Request, deadline: Deadline) -> Iterator[str]:
    """A note on the request's time limit if it ended the search."""
    seconds = request.budget.seconds
    if seconds is not None and deadline.is_over() and not deadline.stop():
        yield f"the search ended after {seconds:g} s: a longer budget may find a faster plan"


# builds the plan of the best of all outcomes, with the progress events of the search
Write = Callable[
    [Request, Sequence[MeshOutcome], MeshOutcome, FoldedPlan, tuple[Finding, ...]], Plan
]


@dataclass(frozen=True, slots=True)
class MemoryMiss:
    """The best plan of a search, which exceeds the memory because of transient memory.

    spare_bytes: the reserve for transient memory. bound_ns: no plan with that reserve costs less.
    fitting: the best plan on a mesh whose plan fits.
    """

    misfit: Misfit
    spare_bytes: float
    bound_ns: float
    fitting: Answer | None = None


def answer_of(
    outcomes: Sequence[MeshOutcome], search: MeshSearch, write: Write
) -> Answer | MemoryMiss:
    """The plan of the best outcome, simplified. write: builds its document."""
    spaces = search.spaces
    solved = [outcome for outcome in outcomes if outcome.outcome.choice is not None]
    if not solved:
        return Answer(infeasible=why_none(outcomes, spaces))
    plans = spaces.plans
    best = fastest(solved, plans)
    folded = plans.of(best)
    if _fits(folded):
        return _simplified_answer(outcomes, search, best, write)
    problem = folded.models.problem
    batch = step_batch(spaces.request.graph, spaces.request.setup)
    misfit = Misfit(folded.memory_bytes, problem.microbatches, batch, bool(problem.remade))
    fitting = [outcome for outcome in solved if _fits(plans.of(outcome))]
    return MemoryMiss(
        misfit,
        problem.spare_bytes,
        _bound_ns(outcomes, best, folded),
        _simplified_answer(outcomes, search, fastest(fitting, plans), write) if fitting else None,
    )


def answer_so_far(
    outcomes: Sequence[MeshOutcome], spaces: MeshSpaces, history: History, write: Write
) -> Answer | None:
    """The best plan that a running search has found, not simplified; None where none fits."""
    plans = spaces.plans
    solved = [outcome for outcome in outcomes if outcome.outcome.choice is not None]
    fitting = [outcome for outcome in solved if _fits(plans.of(outcome))]
    if not fitting:
        return None
    best = fastest(fitting, plans)
    best = replace(best, notes=(NOT_ENDED, *best.notes))
    return _plain_answer(outcomes, spaces, history, best, write)


def _fits(folded: FoldedPlan) -> bool:
    return folded.over_bytes <= 0


def _simplified_answer(
    outcomes: Sequence[MeshOutcome], search: MeshSearch, best: MeshOutcome, write: Write
) -> Answer:
    """The answer of an outcome that fits, simplified as far as it still fits."""
    spaces = search.spaces
    budget = search.simplicity_budget(best)
    if budget is not None:
        simple = simplified(best, spaces.request.budget.simplicity, budget)
        best = best if simple is None else _simple_enough(best, simple, spaces)
    return _plain_answer(outcomes, spaces, search.progress.history, best, write)


def _simple_enough(best: MeshOutcome, simple: Simplified, spaces: MeshSpaces) -> MeshOutcome:
    """The simplified outcome, unless its step is too much longer or it leaves too little memory."""
    plan = spaces.plans.of(best)
    before_ns, most_bytes = (
        plan.cost.step_ns,
        max(plan.memory_bytes.total, FULL * plan.memory_bytes.capacity),
    )
    plan = spaces.plans.of(simple.outcome)
    after_ns = plan.cost.step_ns
    if after_ns > before_ns * (1 + spaces.request.budget.simplicity):
        return best
    if plan.memory_bytes.total > min(most_bytes, plan.memory_bytes.capacity):
        return best
    differs_ms = round((after_ns - before_ns) / 1e6, 3)
    times = f"{abs(differs_ms):.3f} ms {'less' if differs_ms > 0 else 'more'} a step"
    before = f"takes {times}" if differs_ms else "takes as long"
    note = f"simpler than the plan found before, which {before}: {simple.gained}"
    return replace(simple.outcome, notes=(*best.notes, note))


def _plain_answer(
    outcomes: Sequence[MeshOutcome],
    spaces: MeshSpaces,
    history: History,
    best: MeshOutcome,
    write: Write,
) -> Answer:
    """The answer of an outcome that fits."""
    request = spaces.request
    replaced = replaced_pins(request.pins, spaces.pins.values())
    best = replace(best, notes=(*best.notes, *replaced))
    plan = write(request, outcomes, best, spaces.plans.of(best), tuple(history.findings))
    considered = alternatives(outcomes, spaces.plans, best)
    search = plan.search.model_copy(update={"considered": considered})
    return Answer(
        plan=plan.model_copy(update={"search": search}) if considered else plan,
        seconds=tuple(history.seconds),
    )


def fastest(solved: Sequence[MeshOutcome], plans: FoldedPlans) -> MeshOutcome:
    """The outcome of the shortest step, whatever its search minimised. Each has a choice."""
    if len(solved) == 1:
        return solved[0]
    best = min(solved, key=lambda outcome: plans.of(outcome).cost.step_ns)
    cheapest_ns = min(outcome.outcome.cost_ns for outcome in solved)
    return replace(best, faster_ns=best.outcome.cost_ns - cheapest_ns)


def _bound_ns(outcomes: Sequence[MeshOutcome], best: MeshOutcome, folded: FoldedPlan) -> float:
    """A lower bound of the objective on all searched meshes."""
    return min(
        _cheapest_ns(best, folded),
        *(
            o.outcome.lower_bound_ns
            for o in outcomes
            if not o.left_out and o.outcome.status != "infeasible"
        ),
    )


def _cheapest_ns(best: MeshOutcome, folded: FoldedPlan) -> float:
    """The least objective of the search's plans."""
    return folded.cost.objective_ns - best.simplicity_ns - best.faster_ns


@uncollected
def plan_of(
    request: Request,
    outcomes: Sequence[MeshOutcome],
    best: MeshOutcome,
    folded: FoldedPlan,
    history: tuple[Finding, ...],
) -> Plan:
    """The plan of the best outcome, which has a choice, with the proof of all outcomes."""
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
        model_flops=model_flops(models, chosen),
        repeated_work=repeated_work(models, chosen),
        unknown_kinds=tuple(sorted({op.op.kind for op in problem.ops if op.known is None})),
        padding=unfolding.paddings(portions, stages),
        notes=plan_notes(request, outcomes, best, stage, chosen),
    )


def _fused(stage: Stage, request: Request) -> Stage:
    fusion = request.setup.fusion
    buckets = buckets_of(stage, request.graph, fusion, OPTIMIZER_SHARD_BYTES)
    return stage.like(buckets=buckets)
