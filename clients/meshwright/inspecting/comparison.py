"""Two plans beside each other: totals, and the ops that differ, repeats folded."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import isclose

from meshwright.folding import fold
from meshwright.inspecting.ops import OpShare, shares_of
from meshwright.schema import Graph, Mesh, Plan
from meshwright.schema.comparison import (
    ComparedOps,
    Comparison,
    Differing,
    OpDifference,
    PlanTotals,
)

ALIKE = 1e-9  # relative; what is less comes of adding up in another order

Pair = tuple[OpShare | None, OpShare | None]


def compare_plans(first: Plan, first_graph: Graph, second: Plan, second_graph: Graph) -> Comparison:
    """Ops are aligned by name: of graphs that share none, nothing is alike."""
    sides = [
        {share.own.op: share for share in shares_of(plan, graph)}
        for plan, graph in ((first, first_graph), (second, second_graph))
    ]
    meshes = [[_named(stage.mesh) for stage in plan.stages] for plan in (first, second)]
    names = [*sides[0], *(name for name in sides[1] if name not in sides[0])]
    differing: list[tuple[str, Hashable, Pair]] = []
    alike = 0
    for name in names:
        pair = sides[0].get(name), sides[1].get(name)
        what = _differing(pair, meshes)
        if what:
            differing.append((name, _meaning(pair, what), pair))
        else:
            alike += 1
    found = [_difference(own.label, [*own.items], meshes) for own in fold(differing)]
    found.sort(key=lambda own: -_apart_ns(own))
    return Comparison(
        first=_totals(first), second=_totals(second), alike=alike, differences=tuple(found)
    )


def _named(mesh: Mesh) -> dict[str, tuple[str, int, str]]:
    """Axes of two meshes are the same where name, size and level are."""
    return {axis.name: (axis.name, axis.size, axis.level) for axis in mesh.axes}


def _differing(
    pair: Pair, meshes: Sequence[Sequence[dict[str, tuple[str, int, str]]]]
) -> tuple[Differing, ...]:
    one, other = pair
    if one is None or other is None:
        return ("only in one",)
    found: list[Differing] = []
    if one.stage != other.stage:
        found.append("stage")
    axes = [meshes[k][own.stage] for k, own in enumerate((one, other))]
    if _strategy(one, axes[0]) != _strategy(other, axes[1]):
        found.append("strategy")
    if _layouts(one) != _layouts(other):
        found.append("layout")
    if not all(
        isclose(a, b, rel_tol=ALIKE, abs_tol=1e-3)
        for a, b in zip(_numbers(one), _numbers(other), strict=True)
    ):
        found.append("cost")
    return tuple(found)


def _strategy(share: OpShare, axes: dict[str, tuple[str, int, str]]) -> Hashable:
    own = share.own
    return (
        tuple(sorted((f, tuple(axes[a] for a in on)) for f, on in own.strategy.items() if on)),
        tuple(sorted((axes[a], k) for a, k in own.partial.items())),
        tuple(axes[a] for a in own.followers),
    )


def _layouts(share: OpShare) -> tuple[str, ...]:
    return tuple(str(own.layout) for own in (*share.inputs, *share.outputs))


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
        if own is None
        else (
            own.own.kind,
            str(own.own.strategy),
            str(own.own.partial),
            own.own.followers,
            tuple(str(made.layout) for made in own.outputs),
        )
        for own in pair
    )
    return what, sides


def _difference(
    label: str, pairs: list[Pair], meshes: Sequence[Sequence[dict[str, tuple[str, int, str]]]]
) -> OpDifference:
    one, other = pairs[0]
    some = one or other
    assert some is not None
    return OpDifference(
        label=label,
        count=len(pairs),
        kind=some.own.kind,
        differing=_differing((one, other), meshes),
        first=_together([pair[0] for pair in pairs]),
        second=_together([pair[1] for pair in pairs]),
    )


def _together(shares: Sequence[OpShare | None]) -> ComparedOps | None:
    held = [share for share in shares if share is not None]
    if not held:
        return None
    own = held[0].own
    return ComparedOps(
        stages=tuple(sorted({share.stage for share in held})),
        strategy={factor: axes for factor, axes in own.strategy.items() if axes},
        partial=own.partial,
        followers=own.followers,
        outputs=tuple(str(made.layout) for made in held[0].outputs if made.layout is not None),
        compute_ns=sum(share.own.compute_ns for share in held),
        communication_ns=sum(share.communication_ns for share in held),
        saved_bytes=sum(share.saved_bytes for share in held),
        parameter_bytes=sum(share.parameter_bytes for share in held),
    )


def _apart_ns(own: OpDifference) -> float:
    first, second = (
        0.0 if side is None else side.compute_ns + side.communication_ns
        for side in (own.first, own.second)
    )
    return abs(first - second)


def _totals(plan: Plan) -> PlanTotals:
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
    )
