"""`meshwright compare`: two plans beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.consoles import results
from meshwright.cli.output import save, say_written, writable
from meshwright.cli.stored import SERVER, service_of
from meshwright.client import Client
from meshwright.planfile import PlanFile, read_plan
from meshwright.render.comparison import render_comparison
from meshwright.reports.comparison import compare_plans
from meshwright.schema import Graph, PlanError


def compare(
    first: Annotated[str, typer.Argument(help="Plan file; with --server the id of a plan.")],
    second: Annotated[str, typer.Argument(help="The other one.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="JSON file.", callback=writable)
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of the service that has them.", envvar=SERVER)
    ] = None,
) -> None:
    """Two plans beside each other: totals, and op by op what differs."""
    asked = service_of(server, first, second)
    if asked is not None:
        with Client(asked) as client:
            made = client.compare(first, second)
    else:
        one, other = read_plan(Path(first)), read_plan(Path(second))
        made = compare_plans(
            one.plan,
            _graph(first, one, other),
            other.plan,
            _graph(second, other, one),
            setups=(one.setup, other.setup),
            topologies=(_topology(one), _topology(other)),
        )
    if output is None:
        results().print(render_comparison(made))
        return
    save(output, made)
    say_written(output)


def _topology(file: PlanFile) -> str:
    return file.topology.name if file.topology is not None else ""


def _graph(path: str, own: PlanFile, other: PlanFile) -> Graph:
    """The plan's graph; of a bare plan that of the other file, where it is the same."""
    for graph in (own.graph, other.graph):
        if graph is not None and graph.id == own.plan.graph:
            return graph
    raise PlanError(
        f"{path} holds a bare plan; to be compared it needs its graph beside it, as `meshwright "
        "plan -o` writes it"
    )
