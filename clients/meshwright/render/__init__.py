"""Plans as text: a summary of cost and memory, then tables of strategies and layouts."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from meshwright.render.certificate import certificate_text
from meshwright.render.groups import render_groups
from meshwright.render.summary import render_summary
from meshwright.render.tables import render_stage
from meshwright.schema import Certificate, Graph, Plan, Setup, Topology

__all__ = ["certificate_text", "plan_text", "render_groups", "render_plan", "render_summary"]

WIDTH = 140  # chosen: columns of a plan in a file or on a page


def plan_text(
    plan: Plan,
    *,
    graph: Graph | None = None,
    topology: Topology | None = None,
    setup: Setup | None = None,
    certificate: Certificate | None = None,
) -> str:
    """The plan as plain text."""
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None, highlight=False).print(
        render_plan(plan, graph=graph, topology=topology, setup=setup, certificate=certificate)
    )
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def render_plan(
    plan: Plan,
    *,
    graph: Graph | None = None,
    topology: Topology | None = None,
    setup: Setup | None = None,
    certificate: Certificate | None = None,
    seconds: Sequence[float] = (),
    interval_ns: tuple[float, float] | None = None,
    ops: str = "*",
) -> RenderableType:
    """The plan for a rich console.

    `ops` is a glob of the listed ops. `seconds` holds the time of each entry of the plan's
    `search.history`, in seconds after the start of the search, or nothing. `interval_ns` is that
    of the step (`meshwright.reports.step_interval`).
    """
    parts: list[RenderableType] = [
        render_summary(
            plan,
            graph=graph,
            topology=topology,
            setup=setup,
            certificate=certificate,
            seconds=seconds,
            interval_ns=interval_ns,
        )
    ]
    for position, stage in enumerate(plan.stages):
        if len(plan.stages) > 1:
            parts.append(Text(f"\nStage {position}", style="bold"))
        parts += render_stage(stage, graph=graph, ops=ops)
    return Group(*parts)
