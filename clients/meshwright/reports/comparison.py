"""Comparison of two plans: totals, and the ops that differ, with repeats folded."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from math import isclose

from meshwright.common.name_ranges import fold
from meshwright.reports.likelihood import probability_shorter
from meshwright.reports.module_changes import PlanShares, all_changes, module_changes, small_changes
from meshwright.reports.ops import OpShare, shares_of
from meshwright.reports.request_difference import RequestSide, request_differences
from meshwright.reports.throughput import symbols_of
from meshwright.schema import Graph, Mesh, Plan, Setup
from meshwright.schema.comparison import (
    ComparedOps,
    Comparison,
    Differing,
    OpDifference,
    PlanTotals,
    StepChange,
)

_WAITS = {"pipeline": "waits for transfers between stages", "host": "waits for the host"}
ALIKE = 1e-9  # relative; smaller differences come from another order of summation

Pair = tuple[OpShare | None, OpShare | None]


def compare_plans(
    first: Plan,
    first_graph: Graph,
    second: Plan,
    second_graph: Graph,
    *,
    setups: tuple[Setup | None, Setup | None] = (None, None),
    topologies: tuple[str, str] = ("", ""),
) -> Comparison:
    """The totals of two plans and their differing ops, aligned by name.

    setups: of the plans; without them batches and the setups' options are not compared.
    topologies: their names.
    """
    totals = [
        totals_of(plan, graph, setup)
        for plan, graph, setup in zip(
            (first, second), (first_graph, second_graph), setups, strict=True
        )
    ]
    requests = map(RequestSide, (first, second), setups, topologies)
    per_sample = None not in (a := totals[0].batch, b := totals[1].batch) and a != b
    shares = [[*shares_of(first, first_graph)], [*shares_of(second, second_graph)]]
    sides = [{share.own.op: share for share in of_plan} for of_plan in shares]
    meshes = [[_axis_identities(stage.mesh) for stage in plan.stages] for plan in (first, second)]
    names = [*sides[0], *(name for name in sides[1] if name not in sides[0])]
    differing_ops: list[tuple[str, Hashable, Pair]] = []
    alike = 0
    for name in names:
        pair = sides[0].get(name), sides[1].get(name)
        kinds = _difference_kinds(pair, meshes)
        if kinds:
            differing_ops.append((name, _meaning(pair, kinds), pair))
        else:
            alike += 1
    differences = [
        _difference(repeat.label, [*repeat.items], meshes) for repeat in fold(differing_ops)
    ]
    differences.sort(key=lambda difference: -_difference_ns(difference))
    modules = module_changes(
        PlanShares(first, shares[0], totals[0].batch if per_sample else None),
        PlanShares(second, shares[1], totals[1].batch if per_sample else None),
    )
    return Comparison(
        first=totals[0],
        second=totals[1],
        second_shorter=None if per_sample else _second_shorter(first, second),
        requested=tuple(request_differences(*requests)),
        per_sample=per_sample,
        changes=tuple(_changes(totals[0], totals[1], per_sample=per_sample)),
        modules=modules,
        small_modules=small_changes(modules),
        all_modules=all_changes(modules),
        alike=alike,
        differences=tuple(differences),
    )


def _second_shorter(first: Plan, second: Plan) -> float | None:
    a, b = first.cost.step_ns, second.cost.step_ns
    if first.calibration != second.calibration or not (a and b) or isclose(a, b, rel_tol=ALIKE):
        return None
    same_job = (first.graph, first.topology) == (second.graph, second.topology)
    return probability_shorter(a, b, same_job=same_job)


def _axis_identities(mesh: Mesh) -> dict[str, tuple[str, int, str]]:
    """The identity of each axis: its name, size and level."""
    return {axis.name: (axis.name, axis.size, axis.level) for axis in mesh.axes}


def _difference_kinds(
    pair: Pair, meshes: Sequence[Sequence[dict[str, tuple[str, int, str]]]]
) -> tuple[Differing, ...]:
    first, second = pair
    if first is None or second is None:
        return ("only in one",)
    kinds: list[Differing] = []
    if first.stage != second.stage:
        kinds.append("stage")
    axes = [meshes[k][share.stage] for k, share in enumerate((first, second))]
    if _strategy(first, axes[0]) != _strategy(second, axes[1]):
        kinds.append("strategy")
    if _layouts(first) != _layouts(second):
        kinds.append("layout")
    if not all(
        isclose(a, b, rel_tol=ALIKE, abs_tol=1e-3)
        for a, b in zip(_numbers(first), _numbers(second), strict=True)
    ):
        kinds.append("cost")
    return tuple(kinds)


def _strategy(share: OpShare, axes: dict[str, tuple[str, int, str]]) -> Hashable:
    op = share.own
    return (
        tuple(sorted((f, tuple(axes[a] for a in on)) for f, on in op.strategy.items() if on)),
        tuple(sorted((axes[a], k) for a, k in op.partial.items())),
        tuple(axes[a] for a in op.followers),
    )


def _layouts(share: OpShare) -> tuple[str, ...]:
    return tuple(str(tensor.layout) for tensor in (*share.inputs, *share.outputs))


def _numbers(share: OpShare) -> tuple[float, ...]:
    return (
        share.own.compute_ns,
        share.communication_ns,
        share.saved_bytes,
        share.parameter_bytes,
    )


def _meaning(pair: Pair, what: tuple[Differing, ...]) -> Hashable:
    sides = tuple(
        None
        if share is None
        else (
            share.own.kind,
            str(share.own.strategy),
            str(share.own.partial),
            share.own.followers,
            tuple(str(output.layout) for output in share.outputs),
        )
        for share in pair
    )
    return what, sides


def _difference(
    label: str, pairs: list[Pair], meshes: Sequence[Sequence[dict[str, tuple[str, int, str]]]]
) -> OpDifference:
    first, second = pairs[0]
    share = first or second
    assert share is not None
    return OpDifference(
        label=label,
        count=len(pairs),
        kind=share.own.kind,
        differing=_difference_kinds((first, second), meshes),
        first=_sum_shares([pair[0] for pair in pairs]),
        second=_sum_shares([pair[1] for pair in pairs]),
    )


def _sum_shares(shares: Sequence[OpShare | None]) -> ComparedOps | None:
    present = [share for share in shares if share is not None]
    if not present:
        return None
    op = present[0].own
    return ComparedOps(
        stages=tuple(sorted({share.stage for share in present})),
        strategy={factor: axes for factor, axes in op.strategy.items() if axes},
        partial=op.partial,
        followers=op.followers,
        outputs=tuple(
            str(tensor.layout) for tensor in present[0].outputs if tensor.layout is not None
        ),
        compute_ns=sum(share.own.compute_ns for share in present),
        communication_ns=sum(share.communication_ns for share in present),
        saved_bytes=sum(share.saved_bytes for share in present),
        parameter_bytes=sum(share.parameter_bytes for share in present),
    )


def _difference_ns(difference: OpDifference) -> float:
    first, second = (
        0.0 if side is None else side.compute_ns + side.communication_ns
        for side in (difference.first, difference.second)
    )
    return abs(first - second)


def compared_ns(totals: PlanTotals, *, per_sample: bool) -> float:
    """The step, or its share of one sample if the batches differ."""
    return totals.step_ns / totals.batch if per_sample and totals.batch else totals.step_ns


def step_parts(totals: PlanTotals) -> dict[str, float]:
    """The parts of the step by kind, in nanoseconds. Their sum is the step."""
    return {"compute": totals.compute_ns, **totals.exposed_ns, "bubble": totals.bubble_ns}


def part_name(kind: str) -> str:
    """The name of a part of the step: of exposed communication, the wait."""
    return kind if kind in ("compute", "bubble") else _WAITS.get(kind, f"waits for {kind}s")


def _changes(first: PlanTotals, second: PlanTotals, *, per_sample: bool) -> Iterator[StepChange]:
    """The changes of the parts of the step that are not zero, largest first."""
    sides = []
    for totals in (first, second):
        over = totals.batch if per_sample and totals.batch else 1
        sides.append({part: ns / over for part, ns in step_parts(totals).items()})
    kinds = dict.fromkeys((*sides[0], *sides[1]))
    changes = {kind: sides[1].get(kind, 0.0) - sides[0].get(kind, 0.0) for kind in kinds}
    until_ns = sum(sides[0].values())
    for kind in sorted(changes, key=lambda kind: -abs(changes[kind])):
        if changes[kind]:
            until_ns += changes[kind]
            yield StepChange(
                part=part_name(kind), kind=kind, ns=changes[kind], until_ns=max(until_ns, 0.0)
            )


def totals_of(plan: Plan, graph: Graph, setup: Setup | None) -> PlanTotals:
    """The totals of a plan. setup: its batch is unknown without it."""
    cost = plan.cost
    schedule = plan.schedule
    return PlanTotals(
        plan=plan.id,
        name=plan.name,
        graph=plan.graph,
        topology=plan.topology,
        setup=plan.setup,
        calibration=plan.calibration,
        meshes=tuple(dict.fromkeys(stage.mesh for stage in plan.stages)),
        microbatches=plan.microbatches,
        schedule=None if schedule is None else str(schedule.kind),
        recompute=tuple(
            dict.fromkeys(stage.recompute.policy for stage in plan.stages if stage.recompute)
        ),
        step_ns=cost.step_ns,
        objective_ns=cost.objective_ns,
        compute_ns=cost.compute_ns,
        bubble_ns=cost.bubble_ns,
        communication_ns=cost.communication_ns,
        exposed_ns=cost.exposed_ns,
        memory_bytes=cost.memory_bytes,
        memory_total_bytes=cost.memory_bytes.total,
        ops=sum(len(stage.ops) for stage in plan.stages),
        batch=None if setup is None else symbols_of(graph, setup).get("batch"),
    )
