"""`meshwright simulate`: run a plan's step as events on streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from meshwright.cli.option_types import JsonResult
from meshwright.cli.output import say_written, tell, writable
from meshwright.cli.stored import SERVER, service_of
from meshwright.client import Client
from meshwright.common.files import write_whole
from meshwright.planfile import PlanFile, read_plan
from meshwright.plugins.simulator import find_simulator, find_tracer
from meshwright.render.simulation import render_simulation
from meshwright.schema import PlanError, Setup
from meshwright.schema.simulation import Simulation


def simulate(
    plan: Annotated[str, typer.Argument(help="Plan file; with --server the id of a plan.")],
    trace: Annotated[
        Path | None,
        typer.Option(help="Chrome trace for ui.perfetto.dev: a JSON file.", callback=writable),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="JSON file.", callback=writable)
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of the service that has it.", envvar=SERVER)
    ] = None,
    as_json: JsonResult = False,
) -> None:
    """Simulate one step of a plan.

    The step runs as events on compute and communication streams.
    """
    asked = service_of(server, plan)
    if asked is not None:
        with Client(asked) as client:
            made = client.simulation(plan)
            events = client.timeline(plan) if trace is not None else None
    else:
        found = _read(Path(plan))
        made = _simulated(found)
        events = _traced(found) if trace is not None else None
    if trace is not None:
        write_whole(trace, json.dumps(events, separators=(",", ":"), ensure_ascii=False) + "\n")
        say_written(trace)
    tell(made, render_simulation, output=output, as_json=as_json)


def _read(path: Path) -> PlanFile:
    found = read_plan(path)
    if found.graph is None or found.topology is None:
        raise PlanError(
            f"{path} holds a bare plan; to be simulated it needs its graph and topology beside it, "
            "as `meshwright plan -o` writes them"
        )
    return found


def _simulated(found: PlanFile) -> Simulation:
    assert found.graph is not None
    assert found.topology is not None
    return find_simulator()(
        found.plan, found.graph, found.topology, found.setup or Setup(), found.calibration
    )


def _traced(found: PlanFile) -> dict[str, Any]:
    assert found.graph is not None
    assert found.topology is not None
    return find_tracer()(
        found.plan, found.graph, found.topology, found.setup or Setup(), found.calibration
    )
