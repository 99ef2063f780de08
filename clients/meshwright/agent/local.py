"""Processes of a measurement: those that torchrun or mpirun began, or some that we begin here."""

from __future__ import annotations

import datetime
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

import torch.distributed as dist

from meshwright.agent.accelerator import find_accelerator
from meshwright.schema import InvalidInput, Unavailable

# chosen: longer than any task takes, short enough that nobody waits long for one who is gone
PATIENCE = datetime.timedelta(seconds=120)
POLL_S = 0.05
GRACE_S = 2.0  # chosen: a process that lost its peer says so within
PARENT = "MESHWRIGHT_AGENT_PARENT"  # who began this process, and ends it
LOOK_S = 1.0  # between two looks whether it lives; chosen


@dataclass(frozen=True, slots=True)
class Place:
    """rank among all processes, local_rank among those of this machine."""

    rank: int
    local_rank: int
    world_size: int


def place_of(environment: dict[str, str]) -> Place | None:
    """What torchrun, Open MPI or Slurm says of this process; None where none of them began it."""
    for rank, local, size in (
        ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
    ):
        if rank in environment and size in environment:
            return Place(
                int(environment[rank]), int(environment.get(local, "0")), int(environment[size])
            )
    return None


@contextmanager
def process_group(place: Place) -> Iterator[None]:
    """A process group over the backend of the device; InvalidInput without an address."""
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if name not in os.environ:
            raise InvalidInput(
                f"{name} is not set: where the process of rank 0 listens. torchrun sets it; with "
                "mpirun pass -x MASTER_ADDR=host -x MASTER_PORT=29500"
            )
    if PARENT in os.environ:
        parent = int(os.environ[PARENT])
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    accelerator = find_accelerator(place.local_rank)
    dist.init_process_group(
        accelerator.backend,
        rank=place.rank,
        world_size=place.world_size,
        timeout=PATIENCE,
        device_id=None if accelerator.kind == "cpu" else accelerator.device,
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def run_here(command: Sequence[str], count: int) -> int:
    """Begin `count` processes of this machine, wait for all; the exit status of one that failed.

    Where one fails the others are ended: they would wait for it; so they are by SIGTERM. What
    others than the first print is shown only of one that fails.
    """
    signal.signal(signal.SIGTERM, _ended)
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    threads = str(max(1, (os.cpu_count() or 1) // count))
    with tempfile.TemporaryFile() as said:
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(count):
                own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
                own[PARENT] = str(os.getpid())
                threaded = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}
                processes.append(
                    subprocess.Popen(
                        [sys.executable, *command],
                        env={**os.environ, **address, **threaded, **own},
                        stdout=None if rank == 0 else said,
                        stderr=None if rank == 0 else said,
                    )
                )
            failed = _first_failure(processes)
        finally:
            _end(processes)
        if failed is None:
            return 0
        rank, status = failed
        if rank:
            said.seek(0)
            words = said.read().decode(errors="replace").strip().splitlines()
            last = "killed" if status < 0 else words[-1] if words else "it said nothing"
            raise Unavailable(f"process {rank} of {count} ended with status {status}: {last}")
        return status


def _end_with(parent: int) -> None:
    """One that was killed ends nobody: its processes would serve on without it."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)


def _ended(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _first_failure(processes: list[subprocess.Popen[bytes]]) -> tuple[int, int] | None:
    """(rank, status) of the first that fails; None once all have ended well."""
    while True:
        states = [own.poll() for own in processes]
        if any(states):
            return _cause(processes)
        if all(status == 0 for status in states):
            return None
        time.sleep(POLL_S)


def _cause(processes: list[subprocess.Popen[bytes]]) -> tuple[int, int]:
    """(rank, status) of one that was killed, or of the first: others may fail of its loss."""
    with suppress(subprocess.TimeoutExpired):
        processes[0].wait(timeout=GRACE_S)
    states = [own.poll() for own in processes]
    failed = [(rank, status) for rank, status in enumerate(states) if status]
    return min(failed, key=lambda own: (own[1] > 0, own[0]))


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for own in processes:
        if own.poll() is None:
            own.terminate()
    for own in processes:
        try:
            own.wait(timeout=5)
        except subprocess.TimeoutExpired:
            own.kill()
            own.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
