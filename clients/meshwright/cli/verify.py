"""`meshwright verify`: execute a plan and compare it with the unsharded run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.consoles import say
from meshwright.cli.option_types import JsonResult
from meshwright.cli.output import print_json
from meshwright.cli.stored import SERVER, service_of
from meshwright.client import Client
from meshwright.planfile import read_plan
from meshwright.plugins.planner import find_verifier
from meshwright.render import certificate_text
from meshwright.schema import Certificate, PlanError, Setup


def verify(
    plan: Annotated[str, typer.Argument(help="Plan file; with --server the id of a plan.")],
    seed: Annotated[int, typer.Option(help="Seed of the random values.")] = 0,
    server: Annotated[
        str | None, typer.Option(help="URL of the service that executed it.", envvar=SERVER)
    ] = None,
    as_json: JsonResult = False,
) -> None:
    """Execute a plan and compare it with the unsharded model.

    The model is scaled down and executed in numpy, shard by shard; all tensors and gradients are
    compared. For a plan of a service, the command prints the stored certificate of `meshwright plan
    --server URL --verify`.
    """
    asked = service_of(server, plan)
    if asked is None:
        certificate = _executed(plan, seed)
    else:
        with Client(asked) as client:
            certificate = client.certificate(plan)
    if as_json:
        print_json(certificate)
    else:
        say(certificate_text(certificate))
    if certificate.outcome != "verified":
        raise typer.Exit(1)


def _executed(plan: str, seed: int) -> Certificate:
    found = read_plan(Path(plan))
    if found.graph is None or found.topology is None:
        raise PlanError(
            f"{plan} holds a bare plan; to be executed it needs its graph and topology beside it, "
            "as `meshwright plan -o` writes them"
        )
    return find_verifier()(
        found.plan, found.graph, found.topology, found.setup or Setup(), found.calibration, seed
    )
