"""`meshwright agent`, `measure`, `fit`: measure devices, and make a calibration of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from meshwright.cli.asking import topology_of
from meshwright.cli.consoles import results
from meshwright.cli.progress import ProgressLine
from meshwright.client import Client
from meshwright.files import read_document, write_whole
from meshwright.planner import find_fitter
from meshwright.schema import InvalidInput, Unavailable
from meshwright.schema.agent import Agent, Measure
from meshwright.schema.samples import Samples

NEEDS_TORCH = "measuring needs PyTorch: pip install torch (and torch_npu on Ascend)"


def agent(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Samples file; with --serve the folder of those.")
    ],
    seconds: Annotated[float, typer.Option(min=1, help="For all of it, about.")] = 120,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Begin so many on this machine; by default one for each GPU or NPU, two on a CPU. "
            "Under torchrun, mpirun or srun those are taken.",
        ),
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of a service that makes a calibration of it.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Stay, and measure when the service at --server asks.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="Of an agent that serves; the machine's by default.")
    ] = None,
    largest: Annotated[
        int | None, typer.Option(min=256, help="Dims of products at most; what suits the device.")
    ] = None,
    largest_bytes: Annotated[
        int | None, typer.Option(min=1024, help="Messages at most; what suits the device.")
    ] = None,
) -> None:
    """Measure kernels and collectives of this machine, or of all that torchrun began this on.

    Ended early, it goes on where it was when it is begun again.
    """
    if serve and server is None:
        raise InvalidInput("--serve needs the URL of the service that asks: --server URL")
    try:
        from meshwright.agent.accelerator import processes_here
        from meshwright.agent.local import place_of, process_group, run_here
        from meshwright.agent.measuring import Measurement, Wanted
        from meshwright.agent.serving import Serving
        from meshwright.agent.station import Station
    except ImportError:
        raise Unavailable(NEEDS_TORCH) from None
    place = place_of(dict(os.environ))
    if place is None:
        command = ["-m", "meshwright.cli", "agent", "-o", str(output), "--seconds", str(seconds)]
        given = {"--server": server, "--name": name, "--largest": largest}
        for option, value in {**given, "--largest-bytes": largest_bytes}.items():
            command += [] if value is None else [option, str(value)]
        command += ["--serve"] if serve else []
        raise typer.Exit(run_here(command, processes or processes_here()))
    wanted = Wanted(output, seconds, largest, largest_bytes)
    found: Samples | None = None
    try:
        with process_group(place), ProgressLine() as line:
            station = Station.found(place.local_rank)
            if serve and server is not None:
                output.mkdir(parents=True, exist_ok=True)
                serving = Serving(server, output, station)
                if place.rank:
                    serving.follow()
                serving.lead(station.agent(name), _say, line)
            found = Measurement(wanted, station).run(line)
    except RuntimeError as failure:  # torch's, where another process is gone
        goes_on = "" if serve else f". Begun again it goes on from {wanted.journal}"
        raise Unavailable(
            f"process {place.rank} of {place.world_size} cannot go on, another may be gone: "
            f"{str(failure).splitlines()[0]}{goes_on}"
        ) from None
    if found is not None:
        write_whole(output, found.to_json() + "\n")
        if found.complete:
            wanted.journal.unlink(missing_ok=True)
        _tell(found, output)
        if server is not None:
            _upload(found, server)


def measure(
    server: Annotated[str, typer.Option(help="URL of the service.")],
    agent: Annotated[str | None, typer.Option(help="Id of the one to ask; any by default.")] = None,
    backend: Annotated[
        str | None, typer.Option(help="Ask one over nccl, hccl or gloo; any by default.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, help="For all of it, about.")] = 120,
    largest: Annotated[
        int | None, typer.Option(min=256, help="Dims of products at most; what suits the device.")
    ] = None,
    largest_bytes: Annotated[
        int | None, typer.Option(min=1024, help="Messages at most; what suits the device.")
    ] = None,
) -> None:
    """Have an agent that serves measure, and wait for the calibration."""
    given = {"agent": agent, "backend": backend, "seconds": seconds, "largest": largest}
    given["largest_bytes"] = largest_bytes
    asked = Measure.from_dict({name: own for name, own in given.items() if own is not None})
    with Client(server) as client, ProgressLine() as line:
        job = client.measure(asked, on_progress=line)
    _say(f"calibration {job['calibration']}, topology {job['topology']}, by {job['worker']}")


def agents(server: Annotated[str, typer.Option(help="URL of the service.")]) -> None:
    """List the agents of a service: what they have, when they were heard of, what they do."""
    table = Table(box=SIMPLE, pad_edge=False)
    for column in ("name", "devices", "over", "state", "heard of", "measures", "id"):
        table.add_column(column, overflow="fold" if column == "id" else "ellipsis")
    with Client(server) as client:
        for entry in client.agents():
            own = Agent.from_dict(entry["agent"])
            table.add_row(
                own.name,
                f"{own.devices} {own.device}",
                own.backend,
                entry["state"],
                entry["heard_at"][:19],
                entry.get("measuring", ""),
                entry["id"],
            )
    results().print(table)


def fit(
    samples: Annotated[Path, typer.Argument(help="Samples file, as `meshwright agent` writes it.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Calibration file.")],
    topology: Annotated[
        str | None, typer.Option(help="Preset or file, instead of the one that was found.")
    ] = None,
    topology_output: Annotated[
        Path | None, typer.Option(help="Where the topology goes that was found.")
    ] = None,
) -> None:
    """Fit a calibration to samples: the shares of peak that a cluster reaches."""
    found = read_document(samples, Samples)
    cluster = found.topology if topology is None else topology_of(topology)
    calibration = find_fitter()(found, cluster)
    write_whole(output, calibration.to_json() + "\n")
    if topology_output is not None:
        write_whole(topology_output, cluster.to_json() + "\n")
    results().print(calibration.source, markup=False, soft_wrap=True)


def _say(words: str) -> None:
    results().print(words, markup=False, soft_wrap=True)


def _upload(found: Samples, server: str) -> None:
    with Client(server) as client:
        made = client.upload_samples(found)
    results().print(
        f"stored at {server}: calibration {made['calibration']}, topology {made['topology']}; "
        f"median error {made['median_error']:.0%}",
        markup=False,
        soft_wrap=True,
    )


def _tell(found: Samples, output: Path) -> None:
    count = len(found.kernels) + len(found.collectives)
    parts = "" if found.complete else ", not all: begin again with more --seconds"
    results().print(
        f"wrote {output}: {count} samples of {found.topology.name} over {found.backend}{parts}",
        markup=False,
        soft_wrap=True,
    )
    for note in found.notes:
        results().print(f"  {note}", markup=False, soft_wrap=True)
