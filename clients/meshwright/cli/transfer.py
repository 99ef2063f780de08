"""`meshwright transfer`: move the parameters of one plan to where another has them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.option_types import JsonResult
from meshwright.cli.output import tell, writable
from meshwright.cli.stored import SERVER, service_of
from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.planfile import read_plan
from meshwright.plugins.planner import preset
from meshwright.plugins.transfers import find_transfer
from meshwright.render.transfer import render_device, render_transfer
from meshwright.schema import Calibration, Graph, Plan, PlanError, Setup, Topology
from meshwright.schema.transfer import DeviceTransfer, MovedStates, Transfer

Documents = tuple[Plan, Graph, Topology, Setup]


def transfer(
    source: Annotated[str, typer.Argument(help="Plan file; with --server the id of a plan.")],
    target: Annotated[str, typer.Argument(help="Plan file or id of the plan to move to.")],
    state: Annotated[MovedStates, typer.Option(help="State that moves.")] = "all",
    rank: Annotated[
        int | None, typer.Option(min=0, help="Print the transfers of this device only.")
    ] = None,
    first: Annotated[int, typer.Option(min=0, help="Device of the target's rank 0.")] = 0,
    cluster: Annotated[
        str | None, typer.Option(help="Preset or topology file that both plans lie in.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="JSON file.", callback=writable)
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of the service that has them.", envvar=SERVER)
    ] = None,
    as_json: JsonResult = False,
) -> None:
    """Compute the transfers between two plans.

    The transfers move parameters and optimizer state to the layouts of the second plan.
    Rank 0 of the first plan is device 0; the devices of the second plan begin at --first.
    """
    made: Transfer | DeviceTransfer
    asked = service_of(server, source, target)
    if asked is not None:
        with Client(asked) as client:
            made = client.transfer(
                source, target, state=state, first=first, cluster=cluster, device=rank
            )
    else:
        made = _here(source, target, state=state, first=first, cluster=cluster)
        if rank is not None:
            # numpy comes with what computed the transfer, not with every client
            from meshwright.transfers.pieces import device_transfer

            made = device_transfer(made, rank)
    if isinstance(made, Transfer):
        tell(made, render_transfer, output=output, as_json=as_json)
    else:
        tell(made, render_device, output=output, as_json=as_json)


def _here(
    source: str, target: str, *, state: MovedStates, first: int, cluster: str | None
) -> Transfer:
    one, calibration = _documents(Path(source))
    other, _ = _documents(Path(target))
    return find_transfer()(
        (one[0], other[0]),
        (one[1], other[1]),
        (one[2], other[2]),
        (one[3], other[3]),
        state=state,
        first=first,
        cluster=_topology(cluster) if cluster else None,
        calibration=calibration,
    )


def _documents(path: Path) -> tuple[Documents, Calibration | None]:
    found = read_plan(path)
    if found.graph is None or found.topology is None:
        raise PlanError(
            f"{path} holds a bare plan; to be moved it needs its graph and topology beside it, "
            "as `meshwright plan -o` writes them"
        )
    return (found.plan, found.graph, found.topology, found.setup or Setup()), found.calibration


def _topology(name: str) -> Topology:
    return read_document(Path(name), Topology) if Path(name).is_file() else preset(name)
