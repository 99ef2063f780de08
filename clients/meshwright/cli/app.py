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
from meshwright.cli.help_sections import SectionedCommand, SectionedGroup
from meshwright.cli.plan import plan
from meshwright.cli.replan import replan
from meshwright.cli.show import show
from meshwright.cli.simulate import simulate
from meshwright.cli.solve import solve
from meshwright.cli.sweep import sweep
from meshwright.cli.transfer import transfer
from meshwright.cli.verify import verify
from meshwright.cli.version import version_option
from meshwright.client.api_key import KEY, KEY_FILE

cli = typer.Typer(
    cls=SectionedGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@cli.callback()
def root(
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with the API key of the service.")
    ] = None,
    _version: Annotated[bool, version_option("meshwright")] = False,
) -> None:
    """Plan distributed training: shard every operator of a model over a cluster."""
    if api_key_file is not None:  # processes that a command begins speak to the service too
        os.environ.pop(KEY, None)
        os.environ[KEY_FILE] = str(api_key_file)


for command in (
    plan, replan, sweep, estimate, show, explain, compare, verify, simulate, transfer, solve,
    export, agent, agents, measure, fit, topologies, validate,
):  # fmt: skip
    cli.command(cls=SectionedCommand)(command)
cli.add_typer(capture, name="capture")
cli.add_typer(calibrations, name="calibrations")
