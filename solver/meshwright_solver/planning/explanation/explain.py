"""Explanation of the ops that match a glob: for `meshwright explain` and for the service."""

from __future__ import annotations

from collections.abc import Hashable

from meshwright.launch_options.factor_words import factor_words
from meshwright.schema import (
    Calibration,
    Graph,
    Plan,
    PlanError,
    RequestError,
    Setup,
    Stage,
    Topology,
)
from meshwright.schema.explanation import ExplainedOps, Explanation, MemoryPrice
from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.common.deadline import Deadline, OutOfTime, Stop, never
from meshwright_solver.common.name_globs import Names, alike
from meshwright_solver.evaluation.accounting.assignment import Codes
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.planning.explanation.alternatives import (
    OpGroup,
    alternatives_of,
    pin_prices,
    whole_of,
)
from meshwright_solver.planning.explanation.fixed_mesh_problem import Frame, frame_of, request_of
from meshwright_solver.planning.explanation.reasons import ms

MOST_GROUPS = 4  # chosen: each is some fifty searches
ON_THIS_MESH = (
    "searched on the plan's own mesh, with its microbatches and what it does again; other meshes, "
    "and the preference for simpler plans, are left out"
)
ALONE = (
    "of a pipeline only the stage is searched: its step is that of the stage alone, its neighbours "
    "stay as they are"
)


@uncollected
def explain_documents(
    plan: Plan,
    graph: Graph,
    topology: Topology,
    setup: Setup,
    calibration: Calibration | None = None,
    *,
    glob: str,
    seconds: float = 10.0,
    stop: Stop = never,
) -> Explanation:
    """The explanation of the strategies of the ops that match a glob.

    It has a new search for each alternative strategy, the cost of each pin and the cost of the
    memory limit. After `seconds`, the remaining alternatives are listed without a search.

    Raises RequestError if the glob matches no op, ops of several stages, or too many kinds of ops;
    PlanError if the plan does not fit the documents.
    """
    if plan.graph != graph.id or plan.topology != topology.id or plan.setup != setup.id:
        raise PlanError("the plan is of another graph, topology or setup")
    deadline = Deadline.after(seconds, stop)
    number, names = _matching_ops(plan, glob)
    stage = plan.stages[number]
    marks = _marks(stage, names)
    request = request_of(plan, graph, topology, setup, calibration)
    # the deadline does not apply to reading the plan: every part of the explanation needs it
    frame = frame_of(plan, number, request, calibration, marks, deadline)
    assigned = {frame.whole.problem.ops[k].name: codes for k, codes in frame.assigned.items()}
    memory = _memory(frame)
    explained = [
        _explanation_of(frame, group, assigned) for group in _groups(frame, names, marks, assigned)
    ]
    complete = all(
        option.verdict != "not solved" for group in explained for option in group.alternatives
    )
    return Explanation(
        plan=plan.id,
        glob=glob,
        stage=number,
        whole=whole_of(frame.cost),
        memory=memory,
        groups=tuple(explained),
        complete=complete,
        seconds=seconds,
        notes=(ON_THIS_MESH, *((ALONE,) if plan.schedule is not None else ())),
    )


def _matching_ops(plan: Plan, glob: str) -> tuple[int, frozenset[str]]:
    """The number of the stage with the ops that match a glob, and their names."""
    known: list[str] = []
    named: dict[int, frozenset[str]] = {}
    for number, stage in enumerate(plan.stages):
        names = [op.op for op in stage.ops]
        known += names
        matched = frozenset(names[k] for k in Names(names).matching(glob))
        if matched:
            named[number] = matched
    if not named:
        raise RequestError(
            f"{glob[:80]!r} matches no op of the plan; ops are named like {alike(glob, known)}"
        )
    if len(named) > 1:
        raise RequestError(
            f"{glob[:80]!r} matches ops of the stages {', '.join(map(str, named))}, but each stage "
            "is a separate problem. Name ops of one stage"
        )
    return next(iter(named.items()))


def _marks(stage: Stage, names: frozenset[str]) -> dict[str, str]:
    """Marks of the named ops for folding: kind, rule and strategy."""
    return {
        op.op: " ".join(
            (op.kind, str(op.rule), str(op.strategy), str(op.partial), str(op.followers))
        )
        for op in stage.ops
        if op.op in names
    }


def _groups(
    frame: Frame, names: frozenset[str], marks: dict[str, str], assigned: dict[str, Codes]
) -> list[OpGroup]:
    """Groups of the named ops by shape and strategy; RequestError if there are too many."""
    models, whole = frame.models, frame.whole
    folded: dict[Hashable, list[int]] = {}
    for position, op in enumerate(models.problem.ops):
        if op.name in names and position not in models.values.views:
            model = models.ops.model(position)
            folded.setdefault((models.key_of(model), marks[op.name], assigned[op.name]), []).append(
                position
            )
    if len(folded) > MOST_GROUPS:
        some = [models.problem.ops[positions[0]].name for positions in folded.values()][
            : MOST_GROUPS + 1
        ]
        raise RequestError(
            f"these are {len(folded)} kinds of ops, such as {', '.join(some)}; at most "
            f"{MOST_GROUPS} are explained at once. Name fewer"
        )
    every: dict[Hashable, list[str]] = {}
    for position, op in enumerate(whole.problem.ops):
        if op.name in names and position not in whole.values.views:
            key = whole.key_of(whole.ops.model(position)), marks[op.name], assigned[op.name]
            every.setdefault(key, []).append(op.name)
    held = {name: tuple(names_of) for names_of in every.values() for name in names_of}
    groups = []
    for positions in folded.values():
        first = models.problem.ops[positions[0]].name
        groups.append(OpGroup(tuple(positions), held[first], assigned[first]))
    return groups


def _explanation_of(frame: Frame, group: OpGroup, assigned: dict[str, Codes]) -> ExplainedOps:
    op = frame.models.problem.ops[group.positions[0]]
    return ExplainedOps(
        label=group.names[0] if len(group.names) == 1 else f"{group.names[0]} ×{len(group.names)}",
        ops=group.names,
        kind=op.op.kind,
        rule=op.notation,
        factors=factor_words(op.op, op.notation, frame.whole.problem.graph),
        pins=tuple(pin_prices(frame, group)),
        alternatives=tuple(alternatives_of(frame, group, assigned)),
    )


def _memory(frame: Frame) -> MemoryPrice:
    """The cost of the memory limit in the plan's objective."""
    use = frame.cost.memory_bytes
    used = use.total + frame.other_bytes
    try:
        least_ns = frame.least_ns(frame.filters.all)
    except OutOfTime:
        least_ns = None
    # cost differences within this do not count as another plan
    slack = TOLERANCE + frame.spaces.request.budget.simplicity
    objective_ns = frame.cost.objective_ns
    binds = least_ns is not None and objective_ns - least_ns > slack * objective_ns
    if least_ns is None:
        why = "the time was over before it was searched without the limit"
    elif binds:
        why = (
            f"the limit of memory costs {ms(objective_ns - least_ns)} of the objective: without it "
            f"a plan on this mesh would have {ms(least_ns)}"
        )
    else:
        why = "with more memory no plan on this mesh is better by more than simplicity is worth"
    return MemoryPrice(
        used_bytes=used, capacity_bytes=use.capacity, binds=binds, without_ns=least_ns, why=why
    )
