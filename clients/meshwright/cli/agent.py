"""`meshwright agent`, `measure`, `fit`: measure devices, and make a calibration of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from meshwright.agent.machine.reading import Machine
from meshwright.cli.asking import topology_of
from meshwright.cli.consoles import results, say
from meshwright.cli.option_types import JsonResult
from meshwright.cli.output import print_json, save, writable
from meshwright.cli.progress import ProgressLine
from meshwright.cli.stored import SERVER
from meshwright.client import Client
from meshwright.common.files import check_writable, read_document
from meshwright.plugins.planner import find_fitter
from meshwright.schema import InvalidInput, Unavailable
from meshwright.schema.agent import Agent, Measure
from meshwright.schema.samples import Samples

Seconds = Annotated[float, typer.Option(min=1, help="Time for the whole measurement, about.")]
Largest = Annotated[
    int | None,
    typer.Option(min=256, help="Largest dim of products. Default: by the device."),
]
LargestBytes = Annotated[
    int | None, typer.Option(min=1024, help="Largest message in bytes. Default: by the device.")
]
# collectives over these were never run
NEVER_RUN = ("nccl", "hccl")
NEEDS_TORCH = "measuring needs PyTorch: pip install torch (and torch_npu on Ascend)"


def agent(
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Samples file; with --serve a folder."),
    ] = None,
    seconds: Seconds = 120,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes on this machine. Default: one for each GPU or NPU, two on a CPU. Under "
            "torchrun, mpirun or srun the processes of the job are used.",
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(help="URL of a service that fits a calibration to it.", envvar=SERVER),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Stay, and measure on request of --server.")
    ] = False,
    propose: Annotated[
        bool,
        typer.Option("--propose", help="Only print the topology that this machine reports."),
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="Name of the agent. Default: the machine's.")
    ] = None,
    largest: Largest = None,
    largest_bytes: LargestBytes = None,
) -> None:
    """Measure kernels and collectives of this machine.

    Under torchrun, mpirun or srun the agent measures all machines of the job.

    A measurement that was interrupted continues when the command is run again.
    """
    if propose:
        _propose(processes)
        return
    if output is None:
        raise InvalidInput("say where samples go: -o samples.json")
    if serve and server is None:
        raise InvalidInput("--serve needs the URL of the service that asks: --server URL")
    try:
        from meshwright.agent.accelerator import processes_here
        from meshwright.agent.agent_loop import Serving
        from meshwright.agent.launcher import place_of, process_group, run_here
        from meshwright.agent.measurement import Measurement, MeasurementLimits
        from meshwright.agent.process_context import Station
    except ImportError:
        raise Unavailable(NEEDS_TORCH) from None
    if not serve:
        check_writable(output)
    place = place_of(dict(os.environ))
    if place is None:
        command = ["-m", "meshwright.cli", "agent", "-o", str(output), "--seconds", str(seconds)]
        given = {"--server": server, "--name": name, "--largest": largest}
        for option, value in {**given, "--largest-bytes": largest_bytes}.items():
            command += [] if value is None else [option, str(value)]
        command += ["--serve"] if serve else []
        raise typer.Exit(run_here(command, processes or processes_here()))
    wanted = MeasurementLimits(output, seconds, largest, largest_bytes)
    found: Samples | None = None
    try:
        with process_group(place), ProgressLine() as line:
            station = Station.found(place.local_rank)
            if serve and server is not None:
                output.mkdir(parents=True, exist_ok=True)
                serving = Serving(server, output, station)
                if place.rank:
                    serving.follow()
                for note in _unproven(station.accelerator.backend):
                    say(note)
                serving.lead(station.agent(name), say, line)
            found = Measurement(wanted, station).run(line)
    except RuntimeError as failure:  # torch's, where another process is gone
        goes_on = "" if serve else f". Begun again it goes on from {wanted.journal}"
        raise Unavailable(
            f"process {place.rank} of {place.world_size} cannot go on, another may be gone: "
            f"{str(failure).splitlines()[0]}{goes_on}"
        ) from None
    if found is not None:
        save(output, found)
        if found.complete:
            wanted.journal.unlink(missing_ok=True)
        _tell(found, output)
        if server is not None:
            _upload(found, server)


def measure(
    server: Annotated[str, typer.Option(help="URL of the service.", envvar=SERVER)],
    agent: Annotated[str | None, typer.Option(help="Id of the agent. Default: any agent.")] = None,
    backend: Annotated[
        str | None, typer.Option(help="Backend of the agent: nccl, hccl or gloo. Default: any.")
    ] = None,
    seconds: Seconds = 120,
    largest: Largest = None,
    largest_bytes: LargestBytes = None,
) -> None:
    """Request a measurement from an agent of a service."""
    given = {"agent": agent, "backend": backend, "seconds": seconds, "largest": largest}
    given["largest_bytes"] = largest_bytes
    asked = Measure.from_dict({name: own for name, own in given.items() if own is not None})
    with Client(server) as client, ProgressLine() as line:
        job = client.measure(asked, on_progress=line)
    say(f"calibration {job['calibration']}, topology {job['topology']}, by {job['worker']}")


def agents(
    server: Annotated[str, typer.Option(help="URL of the service.", envvar=SERVER)],
    as_json: JsonResult = False,
) -> None:
    """List the agents of a service with their devices and state."""
    with Client(server) as client:
        entries = list(client.agents())
    if as_json:
        print_json(entries)
        return
    table = Table(box=SIMPLE, pad_edge=False)
    for column in ("name", "devices", "over", "state", "heard of", "measures", "id"):
        table.add_column(column, overflow="fold" if column == "id" else "ellipsis")
    for entry in entries:
        agent = Agent.from_dict(entry["agent"])
        table.add_row(
            agent.name,
            f"{agent.devices} {agent.device}",
            agent.backend,
            entry["state"],
            entry["heard_at"][:19],
            entry.get("measuring", ""),
            entry["id"],
        )
    results().print(table)


def fit(
    samples: Annotated[Path, typer.Argument(help="Samples file, as `meshwright agent` writes it.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Calibration file.", callback=writable)
    ],
    topology: Annotated[
        str | None, typer.Option(help="Preset or file. Default: the measured topology.")
    ] = None,
    topology_output: Annotated[
        Path | None,
        typer.Option(help="File for the measured topology.", callback=writable),
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="URL of a service that fits and stores it.", envvar=SERVER)
    ] = None,
) -> None:
    """Fit a calibration to measured samples."""
    found = read_document(samples, Samples)
    cluster = found.topology if topology is None else topology_of(topology)
    if server is None:
        calibration = find_fitter()(found, cluster)
    elif cluster != found.topology:
        raise typer.BadParameter("a service fits to the one found", param_hint="--topology")
    else:
        with Client(server) as client:
            made = client.upload_samples(found)
            calibration = client.get_calibration(made["calibration"])
    save(output, calibration)
    if topology_output is not None:
        save(topology_output, cluster)
    say(calibration.source)


def _unproven(backend: str) -> list[str]:
    """The note on collectives of a backend that was never run."""
    if backend not in NEVER_RUN:
        return []
    return [
        f"collectives over {backend} are not tested: compare some of them with nccl-tests or "
        "hccl_test before plans depend on them"
    ]


def _propose(processes: int | None) -> None:
    """What the machine says, and where each number is from; without PyTorch."""
    machine = Machine.here()
    each = processes or len(machine.cards) or 1
    found = machine.propose(hosts=1, each=each)
    card = machine.cards[0].name if machine.cards else "CPU"
    say(f"{each} x {card}; nothing was measured")
    table = Table(box=SIMPLE, pad_edge=False)
    for column in ("level", "size", "link", "GB/s of a device", "from"):
        table.add_column(column, overflow="fold")
    for level in found.levels:
        rate = "" if level.bytes_per_s is None else f"{level.bytes_per_s / 1e9:.4g}"
        table.add_row(level.name, str(level.size), level.link, rate, level.source)
    if found.levels:
        results().print(table)
    for note in found.notes:
        say(f"  {note}")


def _upload(found: Samples, server: str) -> None:
    with Client(server) as client:
        made = client.upload_samples(found)
    say(
        f"stored at {server}: calibration {made['calibration']}, topology {made['topology']}; "
        f"median error {made['median_error']:.0%}"
    )


def _tell(found: Samples, output: Path) -> None:
    count = len(found.kernels) + len(found.collectives)
    parts = "" if found.complete else ", not all: begin again with more --seconds"
    say(f"wrote {output}: {count} samples of {found.topology.name} over {found.backend}{parts}")
    for note in (*_unproven(found.backend), *found.notes):
        say(f"  {note}")
