"""`meshwright show`: print a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.consoles import results
from meshwright.client import Client
from meshwright.planfile import PlanFile, read_plan
from meshwright.show import render_plan


def show(
    plan: Annotated[str, typer.Argument(help="Plan file; with --server the id of a plan.")],
    server: Annotated[str | None, typer.Option(help="URL of the service that has it.")] = None,
    ops: Annotated[str, typer.Option(help="Glob: list only these ops.")] = "*",
) -> None:
    """Print a plan: what it costs, why it fits, and what it does."""
    found = _fetch(server, plan) if server else read_plan(Path(plan))
    results().print(render_plan(found.plan, graph=found.graph, topology=found.topology, ops=ops))


def _fetch(server: str, id_: str) -> PlanFile:
    with Client(server) as client:
        plan = client.get_plan(id_)
        return PlanFile(
            plan=plan,
            graph=client.get_graph(plan.graph),
            topology=client.get_topology(plan.topology),
        )
