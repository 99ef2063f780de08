"""`meshwright explain`: why ops have their strategies, and what others would cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.option_types import JsonResult
from meshwright.cli.output import tell, writable
from meshwright.cli.stored import SERVER, service_of
from meshwright.client import Client
from meshwright.planfile import read_plan
from meshwright.plugins.explainer import find_explainer
from meshwright.render.explanation import render_explanation
from meshwright.schema import PlanError, Setup
from meshwright.schema.explanation import Explanation


def explain(
    plan: Annotated[str, typer.Argument(help="Plan file; with --server the id of a plan.")],
    op: Annotated[str, typer.Option(help="Glob: the ops to explain.")],
    seconds: Annotated[
        float, typer.Option(min=0.001, max=600, help="Time limit of the searches, in seconds.")
    ] = 10.0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="JSON file.", callback=writable)
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of the service that has it.", envvar=SERVER)
    ] = None,
    as_json: JsonResult = False,
) -> None:
    """Explain the strategies of ops.

    Each alternative strategy is searched again; the table has its step time and memory.
    """
    asked = service_of(server, plan)
    if asked is not None:
        with Client(asked) as client:
            made = client.explain(plan, op, seconds=seconds)
    else:
        made = _explained(Path(plan), op, seconds)
    tell(made, render_explanation, output=output, as_json=as_json)


def _explained(path: Path, op: str, seconds: float) -> Explanation:
    found = read_plan(path)
    if found.graph is None or found.topology is None:
        raise PlanError(
            f"{path} holds a bare plan; to be explained it needs its graph and topology beside it, "
            "as `meshwright plan -o` writes them"
        )
    return find_explainer()(
        found.plan, found.graph, found.topology, found.setup or Setup(), found.calibration,
        glob=op, seconds=seconds,
    )  # fmt: skip
