"""Document checks: every field of a plan document against the evaluator's field of the same name.

The evaluator writes a new document from the plan's layouts. The checks compare its ops, tensors,
parameters, redistributions and their steps with those of the plan. The execution of the plan checks
that the steps move the right data (`meshwright_solver.verification.verify`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from meshwright.schema import Cost, Padding, Plan, PlanError, Redistribution, Search, Stage
from meshwright.schema.cost import Moment
from meshwright.schema.stage import Bucket
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
from meshwright_solver.verification.document_comparison import ROUNDING, compare, compare_items


def check_cost(stated: Cost, judged: Cost, search: Search) -> None:
    """Raise PlanError where the plan's cost or a figure of its search is not the evaluator's."""
    compare(stated, judged, "cost")
    compare(search.cost_ns, judged.objective_ns, "search.cost_ns")
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
    """Check the lower bound of a search against its costs.

    The bound must not exceed the cost of the plan, nor that of the cheapest plan that the search
    reports. An `optimal` plan must cost as much as its bound, within the tolerance.
    """
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
    """FLOPs, repeated work, padding and unknown kinds of a stage, as its layouts give them."""

    model_flops: Mapping[str, float]
    repeated_work: float
    padding: tuple[Padding, ...]
    unknown_kinds: frozenset[str]


def check_facts(plan: Plan, stages: Sequence[Facts]) -> None:
    """Raise PlanError where FLOPs, repeated work, padding or unknown kinds differ from the
    stages'."""
    compare(plan.repeated_work, max(facts.repeated_work for facts in stages), "repeated_work")
    flops = added_flops([facts.model_flops for facts in stages])
    if plan.model_flops:  # a plan without them makes no claim
        if plan.model_flops.keys() != flops.keys():
            raise PlanError(
                f"the plan says model_flops of {list(plan.model_flops)}, not {list(flops)}"
            )
        for dtype, total in flops.items():
            compare(plan.model_flops[dtype], total, f"model_flops of {dtype}")
    unknown = sorted({kind for facts in stages for kind in facts.unknown_kinds})
    if sorted(plan.unknown_kinds) != unknown:
        raise PlanError(f"the plan says unknown_kinds {list(plan.unknown_kinds)}, not {unknown}")
    padding = {item for stage in stages for item in stage.padding}
    for item in plan.padding:
        if item not in padding:
            raise PlanError(f"the plan says padding {_padding_text(item)}, its layouts do not")
    for missing in sorted(padding.difference(plan.padding), key=str):
        raise PlanError(
            f"the plan lacks the padding {_padding_text(missing)}, which its layouts need"
        )


def _padding_text(padding: Padding) -> str:
    return f"of {padding.tensor!r}, dim {padding.dim}, from {padding.size} to {padding.padded}"


def check_stage(problem: Problem, stage: Stage, where: str, *, is_only: bool = False) -> Facts:
    """Check the items and buckets of a stage; raise PlanError at the first difference.

    problem: that of the stage alone. is_only: the plan has one stage and no schedule, so its peak
    memory is checked here too.
    """
    models = Models.of_stage(problem, stage)
    assignment = assignment_of_stage(models, stage)
    ledger = ledger_of(models, assignment)
    judged = with_owners(stage_document(models, assignment, ledger))
    if is_only:
        _check_sole_place(stage)
        by_pass = stage_moments(models, assignment, ledger)
        moments = every_moment(
            by_pass, problem.in_flight, problem.copies, training=problem.training
        )
        _compare_moments(stage.moments, moments, where)
    compare_items(stage.ops, judged.ops, lambda op: op.op, f"{where}op")
    _check_order(problem, stage, where)
    compare_items(stage.tensors, judged.tensors, lambda tensor: tensor.tensor, f"{where}tensor")
    compare_items(
        stage.parameters, judged.parameters, lambda parameter: parameter.tensor, f"{where}parameter"
    )
    compare_items(
        stage.redistributions, judged.redistributions, _redistribution_key, f"{where}redistribution"
    )
    _check_buckets(problem, stage, where)
    chosen = [(position, codes, 1) for position, codes in assignment.ops.items()]
    return Facts(
        model_flops(models, chosen),
        repeated_work(models, chosen),
        paddings(models, stage),
        frozenset(op.op.kind for op in problem.ops if op.known is None),
    )


def _check_sole_place(stage: Stage) -> None:
    """Check the fields of a stage that only a pipeline gives other values."""
    for field in ("pipeline_rank", "in_flight", "receives", "passes", "memory_bytes"):
        compare(getattr(stage, field), Stage.model_fields[field].default, field)


def _check_order(problem: Problem, stage: Stage, where: str) -> None:
    """Check that the ops are in execution order."""
    position_of = problem.position_of
    for before, op in pairwise(stage.ops):
        if position_of[before.op] > position_of[op.op]:
            raise PlanError(f"the plan has the {where}op {before.op!r} before the op {op.op!r}")


def _check_buckets(problem: Problem, stage: Stage, where: str) -> None:
    filled = buckets_of(stage, problem.graph, problem.setup.fusion, OPTIMIZER_SHARD_BYTES)
    for number, (stated, expected) in enumerate(zip_longest(stage.buckets, filled)):
        if stated != expected:
            raise PlanError(
                f"the plan says {where}bucket {number} is of {_bucket_text(stated)}, its steps "
                f"fill one of {_bucket_text(expected)}"
            )


def _bucket_text(bucket: Bucket | None) -> str:
    if bucket is None or not bucket.tensors:
        return "nothing"
    how = f"{bucket.collective} over {', '.join(bucket.axes)}"
    return (
        f"{len(bucket.tensors)} tensors from {bucket.tensors[0]!r} to {bucket.tensors[-1]!r}, "
        f"payload_bytes {bucket.payload_bytes}, by {how}"
    )


def check_places(stated: Sequence[Stage], judged: Sequence[Stage]) -> None:
    """Check rank, microbatches in flight, memory and receives of each stage of a schedule.

    Raises PlanError at the first difference.
    """
    for number, (stage, expected_stage) in enumerate(zip(stated, judged, strict=True)):
        where = f"stage {number} "
        for field in ("pipeline_rank", "ranks_from", "in_flight"):
            value, expected = getattr(stage, field), getattr(expected_stage, field)
            if value != expected:
                raise PlanError(
                    f"stage {number} of the plan says {field} {value}, the schedule has {expected}"
                )
        for field in ("memory_bytes", "passes"):
            compare(getattr(stage, field), getattr(expected_stage, field), where + field)
        _compare_moments(stage.moments, expected_stage.moments, where)
        names = [[item.tensor for item in one.receives] for one in (stage, expected_stage)]
        if names[0] != names[1]:
            raise PlanError(f"the plan says {where}receives {names[0]}, not {names[1]}")
        compare_items(
            stage.receives,
            expected_stage.receives,
            lambda received: received.tensor,
            f"{where}receives",
        )


def _compare_moments(stated: Sequence[Moment], judged: Sequence[Moment], where: str) -> None:
    if len(stated) != len(judged):
        raise PlanError(f"the plan says {len(stated)} {where}moments, evaluate says {len(judged)}")
    for moment, expected in zip(stated, judged, strict=True):
        compare(moment, expected, f"{where}moment {moment.at!r}")


def _redistribution_key(moved: Redistribution) -> Hashable:
    """The identity of a redistribution; `per_step` tells a parameter's gather from its scatter."""
    return moved.tensor, moved.op, moved.input, moved.traffic, bool(moved.per_step)
