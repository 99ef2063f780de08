"""`meshwright show`: print a plan."""

from __future__ import annotations

import itertools
from fnmatch import fnmatchcase
from typing import Annotated

import typer

from meshwright.cli.consoles import results, say
from meshwright.cli.option_types import JsonResult
from meshwright.cli.output import print_json
from meshwright.cli.stored import SERVER, plan_of, service_of
from meshwright.client import Client
from meshwright.common.units import show_ns
from meshwright.render import render_groups, render_plan
from meshwright.reports.step_interval import step_interval_ns
from meshwright.schema import Calibration, InvalidInput, Plan, Setup
from meshwright.schema.observation import Observation

OBSERVATIONS = 20  # printed; the API has all


def show(
    plan: Annotated[str, typer.Argument(help="Plan file; with --server the id of a plan.")],
    server: Annotated[
        str | None, typer.Option(help="URL of the service that has it.", envvar=SERVER)
    ] = None,
    ops: Annotated[str, typer.Option(help="Glob: list only these ops.")] = "*",
    groups: Annotated[
        bool, typer.Option("--groups", help="List the ranks of all communication groups.")
    ] = False,
    as_json: JsonResult = False,
) -> None:
    """Print a plan: its step time, memory and strategies."""
    found = plan_of(server, plan)
    if as_json:
        print_json(found.plan)
        return
    names = [op.op for stage in found.plan.stages for op in stage.ops]
    names += [op.name for op in found.graph.ops] if found.graph else []  # views are not planned
    if names and not any(fnmatchcase(name, ops) for name in names):
        known = ", ".join(repr(name) for name in names[:3])
        raise InvalidInput(f"--ops {ops!r} matches no op; ops are named like {known}")
    asked = service_of(server, plan)
    calibration = found.calibration if asked is None else _calibration(asked, found.plan)
    results().print(
        render_plan(
            found.plan,
            graph=found.graph,
            topology=found.topology,
            setup=found.setup,
            certificate=found.certificate,
            seconds=found.seconds,
            interval_ns=step_interval_ns(found.plan, found.setup or Setup(), calibration),
            ops=ops,
        )
    )
    if asked is not None:
        _print_observations(asked, found.plan)
    for stage in found.plan.stages if groups else ():
        results().print(render_groups(stage))


def _calibration(server: str, plan: Plan) -> Calibration:
    with Client(server) as client:
        return client.get_calibration(plan.calibration)


def _print_observations(server: str, plan: Plan) -> None:
    """What training jobs measured of the plan, over what it says; the newest first."""
    with Client(server) as client:
        entries = list(itertools.islice(client.observations(plan.id), OBSERVATIONS))
    for entry in entries:
        own = Observation.from_dict(entry["observation"])
        stack = f", {own.stack}" if own.stack else ""
        steps = f"{own.steps} steps" if own.steps > 1 else "one step"
        say(
            f"observed {show_ns(own.step_ns)} ({steps}{stack}): {entry['ratio']:.2f} times the "
            f"predicted {show_ns(plan.cost.step_ns)}"
        )
