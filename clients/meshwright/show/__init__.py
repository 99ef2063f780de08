"""A plan that a person can read: what it costs and why it fits, then what it does."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from meshwright.schema import Certificate, Graph, Plan, Setup, Topology
from meshwright.show.certificate import certificate_text
from meshwright.show.groups import render_groups
from meshwright.show.summary import render_summary
from meshwright.show.tables import render_stage

__all__ = ["certificate_text", "plan_text", "render_groups", "render_plan", "render_summary"]

WIDTH = 140  # columns of a plan that goes to a file or a page; chosen


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
    ops: str = "*",
) -> RenderableType:
    """The plan for a rich console. ops: a glob; only these ops are listed.

    seconds: when each entry of the plan's `search.history` was found, where that is known.
    """
    parts: list[RenderableType] = [
        render_summary(
            plan,
            graph=graph,
            topology=topology,
            setup=setup,
            certificate=certificate,
            seconds=seconds,
        )
    ]
    for position, stage in enumerate(plan.stages):
        if len(plan.stages) > 1:
            parts.append(Text(f"\nStage {position}", style="bold"))
        parts += render_stage(stage, graph=graph, ops=ops)
    return Group(*parts)
