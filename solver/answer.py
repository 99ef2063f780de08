"""From outcomes on meshes to an answer: the plan document of the best, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from meshwright.schema import Answer, Finding, Infeasible, Plan, Request, Search
from solver.evaluate import cost_of, ledger_of
from solver.mesh_search import TOLERANCE, History, MeshOutcome, shown
from solver.notes import UNEVEN_WOULD_DO, idle_axes, repeated_work
from solver.plan_document import stage_document


def answer_of(
    request: Request,
    outcomes: Sequence[MeshOutcome],
    simplified: Callable[[MeshOutcome], MeshOutcome],
    history: History,
) -> Answer:
    """The best plan of all outcomes, as simple as may be."""
    solved = [o for o in outcomes if o.outcome.choice is not None]
    if not solved:
        return Answer(infeasible=_infeasible(outcomes))
    best = simplified(min(solved, key=lambda o: o.outcome.cost_ns))
    return Answer(
        plan=_plan(request, outcomes, best, tuple(history.findings)),
        seconds=tuple(history.seconds),
    )


def _plan(
    request: Request,
    outcomes: Sequence[MeshOutcome],
    best: MeshOutcome,
    history: tuple[Finding, ...],
) -> Plan:
    assert best.unfolding is not None
    assert best.outcome.choice is not None
    models, unfolding = best.models, best.unfolding
    problem = models.problem
    portions = unfolding.portions(best.outcome.choice)
    ledgers = [ledger_of(models, portion.assignment, portion.share) for portion in portions]
    times = [len(portion.copies) for portion in portions]
    cost = cost_of(models, zip(ledgers, times, strict=True))
    chosen = [
        (position, portion.assignment.ops[position], len(portion.copies))
        for portion in portions
        for position in portion.share.ops
    ]
    stages = [
        stage_document(models, portion.assignment, ledger, portion.share)
        for portion, ledger in zip(portions, ledgers, strict=True)
    ]
    searched = [outcome for outcome in outcomes if not outcome.left_out]
    cheapest_ns = cost.step_ns - best.simplicity_ns
    bound = min(
        cheapest_ns,
        *(o.outcome.lower_bound_ns for o in searched if o.outcome.status != "infeasible"),
    )
    gap = (cost.step_ns - bound) / cost.step_ns if cost.step_ns else 0.0
    proved = cheapest_ns - bound <= TOLERANCE * (1 + 1e-9) * cheapest_ns
    return Plan(
        name=request.graph.name,
        graph=request.graph.id,
        topology=request.topology.id,
        setup=request.setup.id,
        calibration=problem.calibration.id,
        microbatches=problem.microbatches,
        stages=(unfolding.stage(portions, stages),),
        cost=cost,
        search=Search(
            solver=request.solver,
            found_by=best.found_by,
            outcome="optimal" if proved else "feasible",
            cost_ns=cost.step_ns,
            lower_bound_ns=bound,
            gap=gap,
            meshes=tuple(dict.fromkeys(shown(o.mesh) for o in searched)),
            history=history,
            simplicity_ns=best.simplicity_ns,
        ),
        repeated_work=repeated_work(models, chosen),
        unknown_kinds=tuple(sorted({op.op.kind for op in problem.ops if op.known is None})),
        pins=tuple(pin.model_dump(mode="json") for pin in request.pins),
        padding=unfolding.paddings(portions, stages),
        notes=(
            *best.notes,
            *idle_axes(models, chosen),
            *(
                f"mesh {shown(o.mesh)}{_with_chunks(o)} was not searched: {o.left_out}"
                for o in outcomes
                if o.left_out
            ),
            *request.graph.notes,
        ),
    )


def _with_chunks(searched: MeshOutcome) -> str:
    return "" if searched.models.problem.uneven.mode == "refuse" else " with uneven chunks"


def _infeasible(outcomes: Sequence[MeshOutcome]) -> Infeasible:
    problem = outcomes[0].models.problem
    capacity = problem.topology.device.memory_bytes
    available = int(capacity * (1 - problem.setup.memory_reserve))
    least = [
        o.outcome.minimum_memory_bytes
        for o in outcomes
        if o.outcome.minimum_memory_bytes is not None
    ]
    short = [o.short_bytes for o in outcomes if o.short_bytes is not None]
    if short:
        needed = int(min(short))
        return Infeasible(
            constraint="memory",
            detail=(
                f"the strategies that {outcomes[0].found_by} decides on need at least "
                f"{needed / 2**30:.1f} GiB on a device, {problem.topology.device.name} has "
                f"{available / 2**30:.1f} GiB after the reserve; a search for the whole "
                "(dynamic_programming, auto) may find a plan that fits"
            ),
            needed_bytes=needed,
            available_bytes=available,
        )
    if any(o.outcome.status == "unknown" for o in outcomes):
        return Infeasible(
            constraint="time",
            detail="the time budget ended before any plan that fits was found; give more seconds",
            needed_bytes=int(min(least)) if least else None,
            available_bytes=available if least else None,
        )
    if not least:
        broken = [o.broken_pin for o in outcomes if o.broken_pin is not None]
        tried = "; ".join(dict.fromkeys(shown(o.mesh) for o in outcomes))
        return Infeasible(
            constraint="pins",
            detail=f"op {broken[0]!r} can keep its pin on none of the meshes "
            f"({tried}): the sizes of its factors do not "
            "divide by the axes, or what it reads or makes cannot be split so"
            + ("; " + UNEVEN_WOULD_DO if problem.setup.uneven == "refuse" else "")
            if len(broken) == len(outcomes)
            else "no plan keeps all pins: two of them contradict each other",
        )
    needed = int(min(least))
    return Infeasible(
        constraint="memory",
        detail=(
            f"every plan needs at least {needed / 2**30:.1f} GiB on a device "
            f"({problem.topology.device.name} has {capacity / 2**30:.1f} GiB, of which "
            f"{problem.setup.memory_reserve:.0%} are kept free: {available / 2**30:.1f} GiB); "
            f"{needed / available:.2f} times what there is, with {problem.microbatches} "
            "microbatch(es). More microbatches, a smaller batch, a shorter sequence or more "
            "devices would do."
        ),
        needed_bytes=needed,
        available_bytes=available,
    )
