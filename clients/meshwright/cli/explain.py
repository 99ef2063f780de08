"""`meshwright explain`: why ops have their strategies, and what others would cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.consoles import notices, results
from meshwright.cli.stored import SERVER, service_of
from meshwright.client import Client
from meshwright.explainers import find_explainer
from meshwright.files import write_whole
from meshwright.planfile import read_plan
from meshwright.schema import PlanError, Setup
from meshwright.schema.explanation import Explanation
from meshwright.show.explanation import render_explanation


def explain(
    plan: Annotated[str, typer.Argument(help="Plan file; with --server the id of a plan.")],
    op: Annotated[str, typer.Option(help="Glob: the ops to explain.")],
    seconds: Annotated[float, typer.Option(min=0.001, max=600, help="To search in.")] = 10.0,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="JSON file.")] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of the service that has it.", envvar=SERVER)
    ] = None,
) -> None:
    """Why ops of a plan have their strategies: every other one, searched again, and its price."""
    asked = service_of(server, plan)
    if asked is not None:
        with Client(asked) as client:
            made = client.explain(plan, op, seconds=seconds)
    else:
        made = _explained(Path(plan), op, seconds)
    if output is None:
        results().print(render_explanation(made))
        return
    write_whole(output, made.to_json() + "\n")
    notices().print(f"wrote {output}", markup=False, soft_wrap=True)


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
