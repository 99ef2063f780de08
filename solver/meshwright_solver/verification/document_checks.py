"""What a plan says of itself against what the judge says of it: every number, by its name.

The numbers of ops, tensors, parameters, redistributions and their steps are those of a document
that is written anew from the plan's layouts. Whether its steps do what they should is found out by
executing them (`meshwright_solver.verification.verify`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

from meshwright.schema import Cost, Model, Padding, Plan, PlanError, Redistribution, Search, Stage
from meshwright.schema.plan import Bucket, Moment
from meshwright_solver.evaluation.accounting.assignment_of_plan import assignment_of_stage
from meshwright_solver.evaluation.accounting.ledger import ledger_of
from meshwright_solver.evaluation.memory.memory_use import every_moment
from meshwright_solver.evaluation.memory.stage_memory import stage_moments
from meshwright_solver.evaluation.model_flops import added_flops, model_flops
from meshwright_solver.evaluation.notes import repeated_work
from meshwright_solver.evaluation.padding import paddings
from meshwright_solver.evaluation.plan_document import stage_document
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.problem.problem import Problem
from meshwright_solver.strategies.fusion import buckets_of
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.parameter_owners import with_owners
from meshwright_solver.strategies.parameter_states import OPTIMIZER_SHARD_BYTES

M = TypeVar("M", bound=Model)
ROUNDING = 1e-9  # chosen: the same sums in another order


def check_cost(said: Cost, judged: Cost, search: Search) -> None:
    """Raise PlanError where a plan's cost, or what its search says of it, is another."""
    _compare(said, judged, "cost")
    _compare(search.cost_ns, judged.objective_ns, "search.cost_ns")
    if search.cost_ns:
        gap = (search.cost_ns - search.lower_bound_ns) / search.cost_ns
        if abs(search.gap - gap) > ROUNDING:
            raise PlanError(
                f"the plan says search.gap {search.gap}, its cost and its bound say {gap}"
            )
    _check_bound(search)
    bound = search.step_bound_ns
    if bound is not None and bound > judged.step_ns * (1 + ROUNDING):
        raise PlanError(
            f"the plan says search.step_bound_ns {bound}, its own step is {judged.step_ns}"
        )


def _check_bound(search: Search) -> None:
    """The plan itself, and the cheapest that its search says it found, are no less than the bound;
    what is proved to be the cheapest is on it."""
    cheapest = search.cost_ns - search.faster_ns - search.simplicity_ns
    slack = ROUNDING * search.cost_ns
    if search.lower_bound_ns > cheapest + slack:
        raise PlanError(
            f"the plan says search.lower_bound_ns {search.lower_bound_ns}, and a plan of {cheapest}"
        )
    open_ns = cheapest - search.lower_bound_ns
    if search.outcome == "optimal" and open_ns > TOLERANCE * cheapest + slack:
        raise PlanError(
            f"the plan says that it is optimal, and {cheapest} above its bound of "
            f"{search.lower_bound_ns}"
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """What a stage says of itself beside numbers of its items."""

    model_flops: Mapping[str, float]
    repeated_work: float
    padding: tuple[Padding, ...]
    unknown_kinds: frozenset[str]


def check_facts(plan: Plan, stages: Sequence[Facts]) -> None:
    """Raise PlanError where a plan repeats more work than it says, fills up other dims or runs
    other kinds of ops that are not known."""
    _compare(plan.repeated_work, max(own.repeated_work for own in stages), "repeated_work")
    flops = added_flops([facts.model_flops for facts in stages])
    if plan.model_flops:  # a plan without them makes no claim
        if plan.model_flops.keys() != flops.keys():
            raise PlanError(
                f"the plan says model_flops of {list(plan.model_flops)}, not {list(flops)}"
            )
        for dtype, total in flops.items():
            _compare(plan.model_flops[dtype], total, f"model_flops of {dtype}")
    unknown = sorted({kind for own in stages for kind in own.unknown_kinds})
    if sorted(plan.unknown_kinds) != unknown:
        raise PlanError(f"the plan says unknown_kinds {list(plan.unknown_kinds)}, not {unknown}")
    padding = {own for stage in stages for own in stage.padding}
    for said in plan.padding:
        if said not in padding:
            raise PlanError(f"the plan says padding {_padded(said)}, its layouts do not")
    for own in sorted(padding.difference(plan.padding), key=str):
        raise PlanError(f"the plan lacks the padding {_padded(own)}, which its layouts need")


def _padded(own: Padding) -> str:
    return f"of {own.tensor!r}, dim {own.dim}, from {own.size} to {own.padded}"


def check_stage(problem: Problem, stage: Stage, where: str, *, is_only: bool = False) -> Facts:
    """Raise PlanError where the items of a stage have other numbers, or its buckets others in them.
    problem: of it alone.

    is_only: no schedule decides what it holds at which moment.
    """
    models = Models.of_stage(problem, stage)
    assignment = assignment_of_stage(models, stage)
    ledger = ledger_of(models, assignment)
    judged = with_owners(stage_document(models, assignment, ledger))
    if is_only:
        found = stage_moments(models, assignment, ledger)
        moments = every_moment(found, problem.in_flight, problem.copies, training=problem.training)
        _compare_moments(stage.moments, moments, where)
    _compare_items(stage.ops, judged.ops, lambda own: own.op, f"{where}op")
    _compare_items(stage.tensors, judged.tensors, lambda own: own.tensor, f"{where}tensor")
    _compare_items(stage.parameters, judged.parameters, lambda own: own.tensor, f"{where}parameter")
    _compare_items(stage.redistributions, judged.redistributions, _served, f"{where}redistribution")
    _check_buckets(problem, stage, where)
    chosen = [(position, codes, 1) for position, codes in assignment.ops.items()]
    return Facts(
        model_flops(models, chosen),
        repeated_work(models, chosen),
        paddings(models, stage),
        frozenset(op.op.kind for op in problem.ops if op.known is None),
    )


def _check_buckets(problem: Problem, stage: Stage, where: str) -> None:
    filled = buckets_of(stage, problem.graph, problem.setup.fusion, OPTIMIZER_SHARD_BYTES)
    for number, (said, own) in enumerate(zip_longest(stage.buckets, filled)):
        if said != own:
            raise PlanError(
                f"the plan says {where}bucket {number} is of {_held(said)}, its steps fill one of "
                f"{_held(own)}"
            )


def _held(bucket: Bucket | None) -> str:
    if bucket is None:
        return "nothing"
    how = f"{bucket.collective} over {', '.join(bucket.axes)}"
    return (
        f"{len(bucket.tensors)} tensors from {bucket.tensors[0]!r} to {bucket.tensors[-1]!r}, "
        f"payload_bytes {bucket.payload_bytes}, by {how}"
    )


def check_places(said: Sequence[Stage], judged: Sequence[Stage]) -> None:
    """Raise PlanError where stages say of themselves what their schedule does not."""
    for number, (stage, own) in enumerate(zip(said, judged, strict=True)):
        where = f"stage {number} "
        for field in ("pipeline_rank", "ranks_from", "in_flight"):
            found, expected = getattr(stage, field), getattr(own, field)
            if found != expected:
                raise PlanError(
                    f"stage {number} of the plan says {field} {found}, the schedule has {expected}"
                )
        for field in ("memory_bytes", "passes"):
            _compare(getattr(stage, field), getattr(own, field), where + field)
        _compare_moments(stage.moments, own.moments, where)
        names = [[item.tensor for item in one.receives] for one in (stage, own)]
        if names[0] != names[1]:
            raise PlanError(f"the plan says {where}receives {names[0]}, not {names[1]}")
        _compare_items(
            stage.receives, own.receives, lambda received: received.tensor, f"{where}receives"
        )


def _compare_moments(said: Sequence[Moment], judged: Sequence[Moment], where: str) -> None:
    if len(said) != len(judged):
        raise PlanError(f"the plan says {len(said)} {where}moments, evaluate says {len(judged)}")
    for own, other in zip(said, judged, strict=True):
        _compare(own, other, f"{where}moment {own.at!r}")


def _served(moved: Redistribution) -> Hashable:
    """What tells redistributions apart; of a parameter, gathering it from spreading it."""
    return moved.tensor, moved.op, moved.input, moved.traffic, bool(moved.per_step)


def _compare_items(
    said: Iterable[M], judged: Iterable[M], key: Callable[[M], Hashable], what: str
) -> None:
    known = {key(own): own for own in judged}
    seen = set()
    for own in said:
        name = key(own)
        seen.add(name)
        if name not in known:
            raise PlanError(f"the plan has the {what} {_shown(name)}, its layouts need none")
        _compare(own, known[name], f"{what} {_shown(name)}")
    for name in known:
        if name not in seen:
            raise PlanError(f"the plan lacks the {what} {_shown(name)}, which its layouts need")


def _shown(name: Hashable) -> str:
    parts = name if isinstance(name, tuple) else (name,)
    return " ".join(repr(part) for part in parts if isinstance(part, str))


def _compare(said: object, judged: object, where: str) -> None:
    """Numbers alone, however deep they lie."""
    if isinstance(said, Model) and isinstance(judged, Model):
        theirs = dict(judged)
        for name, own in said:
            _compare(own, theirs[name], f"{where}.{name}")
    elif isinstance(said, Mapping) and isinstance(judged, Mapping):
        for name in {**said, **judged}:
            _compare(said.get(name, 0.0), judged.get(name, 0.0), f"{where}.{name}")
    elif isinstance(said, tuple) and isinstance(judged, tuple):
        for place, (own, other) in enumerate(zip(said, judged, strict=False)):
            _compare(own, other, f"{where}[{place}]")
    elif _differ(said, judged):
        raise PlanError(f"the plan says {where} {said}, evaluate says {judged}")


def _differ(said: object, judged: object) -> bool:
    if said is None or judged is None:
        return said is not judged
    if not isinstance(said, int | float) or not isinstance(judged, int | float):
        return False
    slack = 1 if isinstance(judged, int) else 0
    return abs(said - judged) > max(slack, ROUNDING * max(abs(said), abs(judged)))
