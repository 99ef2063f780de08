"""The costliest ops of a plan, folded over repeats."""

from __future__ import annotations

from collections.abc import Sequence

from meshwright.common.name_ranges import Repeat, fold, pattern
from meshwright.reports.ops import OpShare
from meshwright.schema import Plan
from meshwright.schema.costly_ops import CostliestOps, CostlyOps


def costliest_ops(plan: Plan, shares: Sequence[OpShare], most: int) -> CostliestOps:
    """The `most` groups of equal ops with the longest compute and communication.

    shares: of the ops of the plan (`meshwright.reports.ops.shares_of`).
    """
    total_ns = sum(_ns(share) for share in shares) or 1.0
    repeats = fold((share.own.op, _meaning(share), share) for share in shares)
    repeats.sort(key=lambda repeat: -sum(map(_ns, repeat.items)))
    return CostliestOps(
        plan=plan.id, groups=tuple(_group(repeat, total_ns) for repeat in repeats[:most])
    )


def _ns(share: OpShare) -> float:
    return share.own.compute_ns + share.communication_ns


def _meaning(share: OpShare) -> tuple[object, ...]:
    strategy = tuple((factor, axes) for factor, axes in share.own.strategy.items() if axes)
    return share.own.kind, strategy


def _group(repeat: Repeat[OpShare], total_ns: float) -> CostlyOps:
    first = repeat.first
    is_in_one_stage = len({share.stage for share in repeat.items}) == 1
    return CostlyOps(
        ops=repeat.label,
        glob=pattern(first.own.op) if is_in_one_stage else first.own.op,
        count=repeat.count,
        kind=first.own.kind,
        strategy={factor: axes for factor, axes in first.own.strategy.items() if axes},
        compute_ns=sum(share.own.compute_ns for share in repeat.items),
        communication_ns=sum(share.communication_ns for share in repeat.items),
        share=min(1.0, sum(map(_ns, repeat.items)) / total_ns),
    )
