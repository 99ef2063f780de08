"""Launcher of a measurement: processes of torchrun, mpirun or Slurm, or local processes."""

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

# chosen: longer than any task, and a short wait for a process that has ended
PATIENCE = datetime.timedelta(seconds=120)
POLL_S = 0.05
GRACE_S = 2.0  # chosen: within it a process reports a lost peer
PARENT = "MESHWRIGHT_AGENT_PARENT"  # process id of the parent
LOOK_S = 1.0  # chosen: between two checks of the parent


@dataclass(frozen=True, slots=True)
class ProcessRank:
    """The rank among all processes, and the local rank on this machine."""

    rank: int
    local_rank: int
    world_size: int


def place_of(environment: dict[str, str]) -> ProcessRank | None:
    """The rank set by torchrun, Open MPI or Slurm; None for a process of no launcher."""
    for rank, local, size in (
        ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
    ):
        if rank in environment and size in environment:
            return ProcessRank(
                int(environment[rank]), int(environment.get(local, "0")), int(environment[size])
            )
    return None


@contextmanager
def process_group(place: ProcessRank) -> Iterator[None]:
    """Initialize a process group on the device's backend; InvalidInput without an address."""
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if name not in os.environ:
            raise InvalidInput(
                f"{name} is not set, which is part of the address of rank 0. Start with torchrun, "
                "which sets it; with mpirun, pass -x MASTER_ADDR=host -x MASTER_PORT=29500"
            )
    if PARENT in os.environ:
        parent = int(os.environ[PARENT])
        threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
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
    """Run `count` processes on this machine; returns the exit status of the first failure, or 0.

    A failure or SIGTERM terminates the other processes. Output of processes other than the first
    is shown only on failure.
    """
    signal.signal(signal.SIGTERM, _exit_on_signal)
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    threads = str(max(1, (os.cpu_count() or 1) // count))
    with tempfile.TemporaryFile() as output:
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(count):
                environment = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
                environment[PARENT] = str(os.getpid())
                thread_settings = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}
                processes.append(
                    subprocess.Popen(
                        [sys.executable, *command],
                        env={**os.environ, **address, **thread_settings, **environment},
                        stdout=None if rank == 0 else output,
                        stderr=None if rank == 0 else output,
                    )
                )
            failed = _first_failure(processes)
        finally:
            _terminate(processes)
        if failed is None:
            return 0
        rank, status = failed
        if rank:
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()
            last = "killed" if status < 0 else lines[-1] if lines else "no output"
            raise Unavailable(f"process {rank} of {count} ended with status {status}: {last}")
        return status


def _exit_with_parent(parent: int) -> None:
    """Exit when the parent ends, because a killed parent cannot terminate its processes."""
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _first_failure(processes: list[subprocess.Popen[bytes]]) -> tuple[int, int] | None:
    """The rank and status of the first failure; None after all processes succeed."""
    while True:
        states = [process.poll() for process in processes]
        if any(states):
            return _cause(processes)
        if all(status == 0 for status in states):
            return None
        time.sleep(POLL_S)


def _cause(processes: list[subprocess.Popen[bytes]]) -> tuple[int, int]:
    """The rank and status of the cause: a killed process, else the lowest failed rank."""
    with suppress(subprocess.TimeoutExpired):
        processes[0].wait(timeout=GRACE_S)
    states = [process.poll() for process in processes]
    failed = [(rank, status) for rank, status in enumerate(states) if status]
    return min(failed, key=lambda failure: (failure[1] > 0, failure[0]))


def _terminate(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
