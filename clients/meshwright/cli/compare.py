"""`meshwright compare`: plans beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.option_types import JsonResult
from meshwright.cli.output import tell, writable
from meshwright.cli.stored import SERVER, service_of
from meshwright.client import Client
from meshwright.planfile import PlanFile, read_plan
from meshwright.render.comparison import render_comparison
from meshwright.render.comparison_table import render_comparison_table
from meshwright.reports.comparison import compare_plans
from meshwright.reports.comparison_table import TableSide, comparison_table
from meshwright.schema import Graph, PlanError
from meshwright.schema.comparison import Comparison
from meshwright.schema.comparison_table import MOST_PLANS, ComparisonTable


def compare(
    plans: Annotated[
        list[str],
        typer.Argument(
            metavar="PLAN...", help="Two to eight plan files; with --server the ids of plans."
        ),
    ],
    baseline: Annotated[
        int,
        typer.Option(
            min=1, max=MOST_PLANS, help="The position of the plan from which differences are shown."
        ),
    ] = 1,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="JSON file.", callback=writable)
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of the service that has them.", envvar=SERVER)
    ] = None,
    as_json: JsonResult = False,
) -> None:
    """Compare two to eight plans.

    Two plans are compared op by op; more plans stand in a table with one column for each.
    """
    if not 2 <= len(plans) <= MOST_PLANS:
        raise typer.BadParameter(f"Give 2 to {MOST_PLANS} plans; got {len(plans)}.")
    if baseline > len(plans):
        raise typer.BadParameter(f"There is no plan {baseline}. Use --baseline 1 to {len(plans)}.")
    if len(plans) == 2:
        pair = plans if baseline == 1 else plans[::-1]
        comparison = _comparison(server, pair)
        tell(comparison, render_comparison, output=output, as_json=as_json)
    else:
        table = _comparison_table(server, plans, baseline - 1)
        tell(table, render_comparison_table, output=output, as_json=as_json)


def _comparison(server: str | None, names: Sequence[str]) -> Comparison:
    asked = service_of(server, *names)
    if asked is not None:
        with Client(asked) as client:
            return client.compare(*names)
    first, second = files = [read_plan(Path(name)) for name in names]
    graphs = [_graph(name, file, files) for name, file in zip(names, files, strict=True)]
    return compare_plans(
        first.plan,
        graphs[0],
        second.plan,
        graphs[1],
        setups=(first.setup, second.setup),
        topologies=(_topology(first), _topology(second)),
    )


def _comparison_table(server: str | None, names: Sequence[str], baseline: int) -> ComparisonTable:
    asked = service_of(server, *names)
    if asked is not None:
        with Client(asked) as client:
            return client.compare_table(names, baseline=names[baseline])
    files = [read_plan(Path(name)) for name in names]
    sides = [
        TableSide(file.plan, _graph(name, file, files), file.setup, file.topology)
        for name, file in zip(names, files, strict=True)
    ]
    return comparison_table(sides, baseline)


def _topology(file: PlanFile) -> str:
    return file.topology.name if file.topology is not None else ""


def _graph(path: str, own: PlanFile, files: Sequence[PlanFile]) -> Graph:
    """The plan's graph; of a bare plan that of another file, where it is the same."""
    for file in (own, *files):
        if file.graph is not None and file.graph.id == own.plan.graph:
            return file.graph
    raise PlanError(
        f"{path} holds a bare plan; to be compared it needs its graph beside it, as `meshwright "
        "plan -o` writes it"
    )
