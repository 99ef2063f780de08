"""`meshwright replan`: a plan for other devices, for a job that runs under one already."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.asking import ask, topology_of
from meshwright.cli.consoles import results
from meshwright.cli.option_types import (
    Fresh,
    JsonResult,
    MaxAge,
    Microbatches,
    OutputFile,
    SearchSeconds,
    Verify,
    Workers,
)
from meshwright.cli.stored import SERVER, plan_of
from meshwright.cli.stored_answers import stored_answers
from meshwright.cli.wishes import budget_of, pipeline_of, recompute_of, setup_over
from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.common.process_pool import usual_processes
from meshwright.plugins.transfers import find_transfer
from meshwright.render.transfer import render_transfer
from meshwright.schema import Calibration, PlanError
from meshwright.schema.migration import DEFAULT_STEPS
from meshwright.schema.running_plan import Before
from meshwright.schema.transfer import Transfer


def replan(
    plan: Annotated[
        str, typer.Argument(help="Plan file of the job as it runs now; with --server its id.")
    ],
    topology: Annotated[str, typer.Option(help="The new devices: a preset or a topology file.")],
    steps: Annotated[int, typer.Option(min=1, help="Steps left to train.")] = DEFAULT_STEPS,
    output: OutputFile = None,
    server: Annotated[
        str | None,
        typer.Option(help="URL of a service that searches, and has the plan.", envvar=SERVER),
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Another global batch.")] = None,
    microbatches: Microbatches = None,
    pipeline: Annotated[
        str | None, typer.Option(help="Pipeline ranks: a number, or auto to search.")
    ] = None,
    recompute: Annotated[
        str | None, typer.Option(help="none, selective, cheap, full, ops or auto.")
    ] = None,
    budget: SearchSeconds = None,
    workers: Workers = None,
    calibration: Annotated[
        Path | None, typer.Option(help="Calibration file, in place of the plan's.")
    ] = None,
    verify: Verify = False,
    as_json: JsonResult = False,
    fresh: Fresh = False,
    max_age: MaxAge = None,
) -> None:
    """Plan a running job for other devices.

    The search minimizes the time of the steps left plus the time of the move. Options that are not
    given keep the values of the running plan.
    """
    file = plan_of(server, plan)
    if file.graph is None or file.topology is None or file.setup is None:
        raise PlanError(
            f"{plan} lacks its graph, topology or setup; `meshwright plan -o` writes all"
        )
    wishes = file.plan.wishes
    changes: dict[str, object] = {"degrees": None}  # these are weighed by themselves
    if pipeline is not None:
        changes["pipeline"] = pipeline_of(pipeline, None, None, [])
    if recompute is not None:
        changes["recompute"] = recompute_of(recompute, None)
    if budget is not None:
        old = wishes.budget
        changes["budget"] = budget_of(budget, old.max_axes, old.simplicity)
    wishes = wishes.like(**changes)
    own = file.calibration if calibration is None else read_document(calibration, Calibration)
    setup = setup_over(file.setup, global_batch=batch, microbatches=microbatches)
    found = ask(
        file.graph,
        topology,
        setup,
        wishes,
        server=server,
        verify=verify,
        output=output,
        as_json=as_json,
        workers=workers or usual_processes(),
        calibration=own,
        before=Before(plan=file.plan, topology=file.topology, setup=file.setup, steps=steps),
        stored=stored_answers(fresh=fresh, max_age=max_age, server=server),
    )
    if server is not None:
        with Client(server) as client:
            moved = client.transfer(file.plan.id, found.id)
    else:
        moved = find_transfer()(
            (file.plan, found),
            (file.graph, file.graph),
            (file.topology, topology_of(topology)),
            (file.setup, setup),
            calibration=own,
        )
    assert isinstance(moved, Transfer)
    if as_json:
        return
    results().print(render_transfer(moved))
