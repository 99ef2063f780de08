"""`meshwright verify`: execute a plan and compare it with the unsharded run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.consoles import say
from meshwright.planfile import read_plan
from meshwright.planner import find_verifier
from meshwright.schema import PlanError, Setup
from meshwright.show import certificate_text


def verify(
    plan: Annotated[Path, typer.Argument(help="Plan file, as `meshwright plan -o` writes it.")],
    seed: Annotated[int, typer.Option(help="Of the random values.")] = 0,
) -> None:
    """Execute a plan device by device, scaled down, and compare all tensors and gradients."""
    found = read_plan(plan)
    if found.graph is None or found.topology is None:
        raise PlanError(
            f"{plan} holds a bare plan; to be executed it needs its graph and topology beside it, "
            "as `meshwright plan -o` writes them"
        )
    certificate = find_verifier()(
        found.plan, found.graph, found.topology, found.setup or Setup(), found.calibration, seed
    )
    say(certificate_text(certificate))
    if certificate.outcome != "verified":
        raise typer.Exit(1)
