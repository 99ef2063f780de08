"""All commands together."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.agent import agent, agents, fit, measure
from meshwright.cli.calibrations import calibrations
from meshwright.cli.capture import capture
from meshwright.cli.compare import compare
from meshwright.cli.documents import topologies, validate
from meshwright.cli.estimate import estimate
from meshwright.cli.explain import explain
from meshwright.cli.export import export
from meshwright.cli.plan import plan
from meshwright.cli.replan import replan
from meshwright.cli.show import show
from meshwright.cli.simulate import simulate
from meshwright.cli.solve import solve
from meshwright.cli.sweep import sweep
from meshwright.cli.transfer import transfer
from meshwright.cli.verify import verify
from meshwright.client.api_key import KEY, KEY_FILE

cli = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@cli.callback()
def root(
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with the API key that a service asks for.")
    ] = None,
) -> None:
    """Plans for distributed training: how to shard every operator of a model over a cluster."""
    if api_key_file is not None:  # processes that a command begins speak to the service too
        os.environ.pop(KEY, None)
        os.environ[KEY_FILE] = str(api_key_file)


cli.command()(plan)
cli.command()(replan)
cli.command()(sweep)
cli.command()(estimate)
cli.command()(show)
cli.command()(explain)
cli.command()(compare)
cli.command()(verify)
cli.command()(simulate)
cli.command()(transfer)
cli.command()(solve)
cli.command()(export)
cli.add_typer(capture, name="capture")
cli.command()(agent)
cli.command()(agents)
cli.command()(measure)
cli.command()(fit)
cli.add_typer(calibrations, name="calibrations")
cli.command()(topologies)
cli.command()(validate)
