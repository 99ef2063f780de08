"""Time of the ops of a plan, by kind."""

from __future__ import annotations

from collections import defaultdict

from meshwright.schema import Plan
from meshwright.schema.overview import KindTime

MOST_KINDS = 5  # chosen: of a summary


def kind_times(plan: Plan) -> list[KindTime]:
    """The kinds of ops by time, longest first: compute and the collectives inside the ops.

    Shares are of the time of all ops of all pipeline ranks.
    """
    compute_ns: defaultdict[str, float] = defaultdict(float)
    communication_ns: defaultdict[str, float] = defaultdict(float)
    replicated_ns: defaultdict[str, float] = defaultdict(float)
    for stage in plan.stages:
        for op in stage.ops:
            compute_ns[op.kind] += op.compute_ns
            communication_ns[op.kind] += op.communication_ns
            if stage.mesh.device_count > 1 and not any(op.strategy.values()):
                replicated_ns[op.kind] += op.compute_ns
    total_ns = sum(compute_ns.values()) + sum(communication_ns.values())
    times = [
        KindTime(
            kind=kind,
            compute_ns=compute_ns[kind],
            communication_ns=communication_ns[kind],
            replicated_ns=replicated_ns[kind],
            share=(compute_ns[kind] + communication_ns[kind]) / total_ns if total_ns else 0.0,
        )
        for kind in compute_ns
    ]
    return sorted(times, key=lambda time: (-time.share, time.kind))
