"""`meshwright calibrations`: what there is, and how well one tells what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from meshwright.cli.consoles import results, say
from meshwright.cli.help_sections import SectionedCommand
from meshwright.cli.option_types import JsonResult
from meshwright.cli.output import print_json
from meshwright.cli.stored import SERVER, service_of
from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.common.units import show_ns
from meshwright.plugins.planner import find_residuals_function
from meshwright.schema import Calibration
from meshwright.schema.curves import DeviceCurves
from meshwright.schema.residuals import Residuals
from meshwright.schema.samples import Samples

calibrations = typer.Typer(
    help="List and print calibrations of the cost model.", no_args_is_help=True
)


@calibrations.command("list", cls=SectionedCommand)
def list_all(
    server: Annotated[str, typer.Option(help="URL of the service.", envvar=SERVER)],
    as_json: JsonResult = False,
) -> None:
    """List the calibrations of a service."""
    with Client(server) as client:
        entries = list(client.calibrations())
    if as_json:
        print_json(entries)
        return
    table = Table(box=SIMPLE, pad_edge=False)
    for column in ("name", "stored", "median error", "id"):
        table.add_column(column, overflow="fold" if column == "id" else "ellipsis")
    for entry in entries:
        error = entry["summary"].get("median_error")
        shown = "" if error is None else f"{error:.0%}"
        table.add_row(entry["name"], entry["created_at"][:19], shown, entry["id"])
    results().print(table)


@calibrations.command(cls=SectionedCommand)
def show(
    calibration: Annotated[str, typer.Argument(help="A file; with --server an id.")],
    server: Annotated[
        str | None, typer.Option(help="URL of the service that has it.", envvar=SERVER)
    ] = None,
    samples: Annotated[
        Path | None, typer.Option(help="Samples file to compare a calibration file with.")
    ] = None,
    as_json: JsonResult = False,
) -> None:
    """Print a calibration, and the ratio of predicted to measured time for each kind of sample."""
    asked = service_of(server, calibration)
    if asked is None:
        own = read_document(Path(calibration), Calibration)
        found = (
            None
            if samples is None
            else find_residuals_function()(own, read_document(samples, Samples))
        )
    else:
        with Client(asked) as client:
            own, found = client.get_calibration(calibration), client.residuals(calibration)
    if as_json:
        print_json(own)
        return
    _print(own)
    _print_curves(own.curves)
    if found is not None and found.residuals:
        _print_residuals(found)
    elif asked is None and samples is None and own.fitted is not None:
        say(f"fitted to {own.fitted.samples}: --samples FILE compares it with them")
    else:
        say("no samples of it are known")


def _print(own: Calibration) -> None:
    shares = own.efficiency
    say(f"{own.name}, {own.id}")
    say(own.source)
    say(
        f"of peak: matmul {shares.matmul:.1%}, attention {shares.attention:.1%}, memory "
        f"{shares.memory:.1%}; of links {own.link_efficiency:.1%}; a launch takes "
        f"{show_ns(own.launch_ns)}"
    )
    if own.anchored is not None:
        by = own.anchored
        steps = f"{by.observations} measured steps of {by.calibration}"
        say(f"all of it takes {by.ratio:.3g} times as long, by {steps}")


def _print_curves(curves: tuple[DeviceCurves, ...]) -> None:
    """Every constant of one device; of several, whose they are."""
    if len(curves) > 1:
        say(f"curves of {', '.join(own.device for own in curves)}")
        return
    for own in curves:
        table = Table(box=SIMPLE, pad_edge=False, title=own.device, title_justify="left")
        for column in ("constant", "value", "spread", "from"):
            table.add_column(column, overflow="fold")
        for name, constant in own.constants():
            table.add_row(name, f"{constant.value:.4g}", f"{constant.spread:.2g}", constant.source)
        results().print(table)


def _print_residuals(found: Residuals) -> None:
    table = Table(box=SIMPLE, pad_edge=False, title="predicted over measured", title_justify="left")
    for column in ("kind", "samples", "median", "quartiles", "worst", "of"):
        table.add_column(column, overflow="fold")
    for own in found.residuals:
        table.add_row(
            own.kind,
            str(own.samples),
            f"{own.median:.2f}",
            f"{own.low:.2f} to {own.high:.2f}",
            f"{own.worst:.2g}",
            own.worst_of,
        )
    results().print(table)
