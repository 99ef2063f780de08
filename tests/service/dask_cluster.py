"""A real Dask scheduler with two workers, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.programs import Program
from tests.service.builds import python_path
from tests.service.conftest import ROOT, until

WORKERS = 2
Process = subprocess.Popen[bytes] | Program


@dataclass
class Cluster:
    """address: of the scheduler. workers: the processes in which tasks run."""

    address: str
    scheduler: Process
    workers: list[Process]

    def pids(self) -> set[int]:
        return {own.pid for own in self.workers}


@contextmanager
def cluster(folder: Path, *security: str, sources: Path = ROOT) -> Iterator[Cluster]:
    """security: options of `dask scheduler` and `dask worker`. sources: what these import."""
    environment = {**os.environ, "PYTHONPATH": python_path(sources)}
    file = folder / "scheduler.json"
    begun: list[Process] = []

    def begin(*words: str) -> Process:
        words = (*words, "--no-dashboard", *security)
        with (folder / f"dask-{len(begun)}").open("wb") as log:
            if sources == ROOT:
                program = Program("dask", words, stdout=log, stderr=log, environment=environment)
                begun.append(program)
            else:  # another planner than that which the programs of tests have imported
                command = [sys.executable, "-m", "dask", *words]
                begun.append(
                    subprocess.Popen(command, cwd=sources, env=environment, stdout=log, stderr=log)
                )
        return begun[-1]

    try:
        protocol = "tls" if security else "tcp"
        scheduler = begin(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--protocol", protocol,
            "--scheduler-file", str(file),
        )  # fmt: skip
        said = until(lambda: file.exists() and file.read_text())  # it is empty at first
        address = json.loads(said)["address"]
        workers = [
            begin(
                "worker", address, "--no-nanny", "--nthreads", "1", "--local-directory", str(folder)
            )
            for _ in range(WORKERS)
        ]
        logs = [folder / f"dask-{1 + number}" for number in range(WORKERS)]
        until(lambda: all("Registered to" in log.read_text() for log in logs))
        yield Cluster(address, scheduler, workers)
    finally:
        for process in begun:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait(timeout=120)
