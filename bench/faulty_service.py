"""A service of several processes that somebody keeps killing, and a supervisor that restarts them.

Used by bench.faults. Every process is a real one: the API without workers, workers, the solver
children that the workers start, and the processes that those are copies of.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from bench.ending import end

ROOT = Path(__file__).resolve().parents[1]
LEASE_S = 3.0
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


class Program:
    """One `meshwright-server` command that is begun again whenever it ends."""

    def __init__(self, name: str, words: list[str], environment: dict[str, str], log: Path) -> None:
        self.name = name
        self._command = [sys.executable, "-m", "meshwright_service.cli", *words]
        self._environment = {**os.environ, **environment}
        self._log = log
        self._wanted = True
        self._restart = threading.Lock()
        self._process = self._start()
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def copied(self) -> list[int]:
        """Process ids of what its solvers are copies of."""
        return [pid for pid, words in _children(self.pid) if "multiprocessing.forkserver" in words]

    def solvers(self) -> list[int]:
        """Process ids of the solvers that it has started."""
        return [pid for copied in self.copied() for pid, _ in _children(copied)]

    def end(self) -> None:
        """End it for good."""
        with self._restart:
            self._wanted = False
        end(self._process)
        self._thread.join(timeout=30)

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command, cwd=ROOT, env=self._environment, stdout=log, stderr=log
            )

    def _supervise(self) -> None:
        while True:
            self._process.wait()
            time.sleep(0.1)  # what cannot start, because the database is away, tries again
            with self._restart:
                if not self._wanted:
                    return
                self._process = self._start()


class Clock:
    """The clock of a machine: all processes begun in its `environment` see it move together."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.environment = {}
        self.set(0)
        if FAKETIME.exists():
            self.environment = {
                "LD_PRELOAD": str(FAKETIME),
                "FAKETIME_TIMESTAMP_FILE": str(self._file),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }

    def set(self, ahead_s: float) -> None:
        """Ahead of the true time, or behind it."""
        self._file.write_text(f"{ahead_s:+.0f}\n")

    def jump(self, random: Random) -> bool:
        """Set it forward or back, by up to a day."""
        self.set(random.uniform(-86400, 86400))
        return bool(self.environment)


class Service:
    """An API and workers on one store, in the time of a clock that can be set."""

    def __init__(self, store: str, folder: Path, clock: Clock, *, workers: int) -> None:
        self.url = f"http://127.0.0.1:{_free_port()}"
        self._folder = folder
        environment = clock.environment | {
            "PYTHONPATH": str(ROOT),
            "MESHWRIGHT_DATABASE_URL": store,
            "MESHWRIGHT_DATA_DIR": str(folder),
            "MESHWRIGHT_LEASE_S": f"{LEASE_S:g}",
        }
        port = self.url.rpartition(":")[2]
        serve = ["serve", "--port", port, "--workers", "0"]
        self.api = Program("API", serve, environment, folder / "api.log")
        self.workers = [
            Program(
                f"worker {number}", ["worker", "--workers", "1"], environment,
                folder / f"worker-{number}.log",
            )
            for number in range(workers)
        ]  # fmt: skip

    def kill_api(self, _: Random) -> bool:
        return _kill(self.api.pid)

    def kill_worker(self, random: Random) -> bool:
        return _kill(random.choice(self.workers).pid)

    def kill_solver(self, random: Random) -> bool:
        """Kill a solver child, where one is at work."""
        solvers = [pid for worker in self.workers for pid in worker.solvers()]
        return bool(solvers) and _kill(random.choice(solvers))

    def kill_copied(self, random: Random) -> bool:
        """Kill a process that solvers are copies of, where there is one."""
        copied = [pid for worker in self.workers for pid in worker.copied()]
        return bool(copied) and _kill(random.choice(copied))

    def freeze_worker(self, random: Random) -> bool:
        """Stop a worker until its lease is over, and let it wake up."""
        pid = random.choice(self.workers).pid
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(1.5 * LEASE_S)
            os.kill(pid, signal.SIGCONT)
            return True
        return False

    def end(self) -> None:
        for program in (self.api, *self.workers):
            program.end()

    def said(self) -> str:
        """The last lines of all logs."""
        logs = sorted(self._folder.glob("*.log"))
        return "\n".join(f"== {log.name}\n{log.read_text()[-1500:]}" for log in logs)


class SmallDisk:
    """A disk of a few MiB for a store, which can be filled up. Only root can have one."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self._folder = folder
        size = f"size={size_bytes}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=True)

    def fill(self, seconds: float) -> bool:
        """Leave no byte free for so long."""
        filler = self._folder / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 12))
        time.sleep(seconds)
        filler.unlink(missing_ok=True)
        return True

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", self._folder], check=True)


def _children(parent: int) -> list[tuple[int, str]]:
    """Process ids, with their command lines."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                words = (stat.parent / "cmdline").read_text()
                found.append((int(stat.parent.name), words))
    return found


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


Fault = Callable[[Random], bool]
