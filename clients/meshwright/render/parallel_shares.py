"""Rows of a summary: the parallelism of modules, where they differ."""

from __future__ import annotations

from collections.abc import Iterator

from meshwright.common.units import show_share
from meshwright.launch_options.roles import op_roles
from meshwright.reports.parallel_shares import parallel_shares
from meshwright.schema import Graph, Plan

_FEW = 4  # chosen: the groups of most compute time; the dashboard shows all


def parallel_rows(plan: Plan, graph: Graph | None) -> Iterator[tuple[str, str]]:
    """The largest groups of modules that are cut alike; none if all large ones are."""
    if graph is None:
        return
    stages = [(stage, op_roles(stage, graph)) for stage in plan.stages]
    groups = [group for group in parallel_shares(stages) if group.modules][:_FEW]
    if len({tuple(group.ways.items()) for group in groups}) < 2:
        return
    for place, group in enumerate(groups):
        times = f" ×{group.count}" if group.count > 1 else ""
        ways = ", ".join(f"{role} {count}" for role, count in group.ways.items())
        text = f"{group.modules}{times}: {ways or 'replicated'}"
        yield (
            "" if place else "parallel",
            f"{text} ({show_share(group.share)} of the compute time)",
        )
