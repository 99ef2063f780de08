"""`meshwright agent` and `meshwright fit`: measure devices, and make a calibration of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from meshwright.cli.asking import topology_of
from meshwright.cli.consoles import results
from meshwright.cli.progress import ProgressLine
from meshwright.client import Client
from meshwright.files import read_document, write_whole
from meshwright.planner import find_fitter
from meshwright.schema import Unavailable
from meshwright.schema.samples import Samples

NEEDS_TORCH = "measuring needs PyTorch: pip install torch (and torch_npu on Ascend)"


def agent(
    output: Annotated[Path, typer.Option("-o", "--output", help="Samples file.")],
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
    try:
        from meshwright.agent.accelerator import processes_here
        from meshwright.agent.local import place_of, process_group, run_here
        from meshwright.agent.measuring import Measurement, Wanted
    except ImportError:
        raise Unavailable(NEEDS_TORCH) from None
    place = place_of(dict(os.environ))
    if place is None:
        command = ["-m", "meshwright.cli", "agent", "-o", str(output), "--seconds", str(seconds)]
        given = {"--server": server, "--largest": largest, "--largest-bytes": largest_bytes}
        for option, value in given.items():
            command += [] if value is None else [option, str(value)]
        raise typer.Exit(run_here(command, processes or processes_here()))
    wanted = Wanted(output, seconds, largest, largest_bytes)
    try:
        with process_group(place), ProgressLine() as line:
            found = Measurement(wanted, place.local_rank).run(line)
    except RuntimeError as failure:  # torch's, where another process is gone
        raise Unavailable(
            f"process {place.rank} of {place.world_size} cannot go on, another may be gone: "
            f"{str(failure).splitlines()[0]}. Begun again it goes on from {wanted.journal}"
        ) from None
    if found is not None:
        write_whole(output, found.to_json() + "\n")
        if found.complete:
            wanted.journal.unlink(missing_ok=True)
        _tell(found, output)
        if server is not None:
            _upload(found, server)


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
