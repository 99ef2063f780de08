"""Commands of this project in processes of their own that start in milliseconds, not in seconds.

One process for each process of pytest imports what the commands import, and has no threads. A
program is a fork of it that runs a module as `python -m` does, with arguments, environment, folder
and streams of its own. Its forkserver is such a fork too. tests/packaging starts the
commands as a shell does.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import multiprocessing.util as multiprocessing_util
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[1]
SERVER, CLIENT = "meshwright_service.cli", "meshwright.cli"
# those that multiprocessing's forkserver of the service loads, and those of `serve` and `worker`
MODULES = (
    "meshwright_service.cli.server",
    "meshwright_service.api.app",
    "meshwright.cli",
    "meshwright_service.processes.forkserver",
)
LIMIT_BYTES = 1 << 18  # of a message; chosen: an environment is a tenth of it


class Program:
    """A started module, with what tests use of subprocess.Popen."""

    def __init__(
        self,
        module: str,
        words: Sequence[str],
        *,
        stdout: IO[Any],
        stderr: IO[Any],
        environment: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> None:
        self.args = [module, *words]
        self.returncode: int | None = None
        self._replies, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        given = dict(os.environ if environment is None else environment)
        message = json.dumps([module, list(words), given, str(cwd)]).encode()
        assert len(message) < LIMIT_BYTES
        with theirs, open(os.devnull, "rb") as nothing:
            streams = [own.fileno() for own in (theirs, nothing, stdout, stderr)]
            socket.send_fds(_control(os.getpid()), [message], streams)
        self.pid = int(self._replies.recv(LIMIT_BYTES))

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self._replies.settimeout(timeout)
            try:
                self.returncode = int(self._replies.recv(LIMIT_BYTES))
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._replies.close()
        return self.returncode

    def poll(self) -> int | None:
        """Its exit code once it has ended."""
        try:
            return self.wait(1e-6)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Nothing where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.send_signal(signal.SIGKILL)


def run(
    module: str,
    *words: str,
    environment: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """`python -m MODULE WORDS…` to its end; killed where it takes longer."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        program = Program(
            module, words, stdout=stdout, stderr=stderr, environment=environment, cwd=cwd
        )
        try:
            code = program.wait(timeout)
        except subprocess.TimeoutExpired:
            program.send_signal(signal.SIGKILL)
            raise
        for stream in (stdout, stderr):
            stream.seek(0)
        return subprocess.CompletedProcess(program.args, code, stdout.read(), stderr.read())


@contextmanager
def started(
    module: str, words: Sequence[str], errors: IO[Any], environment: Mapping[str, str]
) -> Iterator[tuple[Program, IO[str]]]:
    """`python -m MODULE WORDS…` and its output; ended by SIGTERM, as supervisors do."""
    output, written = os.pipe()
    with open(output, encoding="utf-8") as said:
        with open(written, "wb") as stdout:
            program = Program(module, words, stdout=stdout, stderr=errors, environment=environment)
        try:
            yield program, said
        finally:
            program.send_signal(signal.SIGTERM)
            program.wait(timeout=120)


@cache
def _control(_process: int) -> socket.socket:
    """The socket of the process that forks, which ends with this one."""
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    given = {name: own for name, own in os.environ.items() if not name.startswith("MESHWRIGHT_")}
    with theirs:
        subprocess.Popen(
            [sys.executable, "-m", "tests.programs", str(theirs.fileno())],
            cwd=ROOT,
            env=given,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        ).returncode = 0  # nobody waits for it: no warning at its end
    atexit.register(control.close)
    return control


# --- in the process that forks --------------------------------------------------------------------


def _main(control: socket.socket) -> None:
    forkserver = [importlib.import_module(name) for name in MODULES][-1]
    for name in forkserver.MODULES:
        importlib.import_module(name)
    importlib.import_module("multiprocessing.forkserver")
    path = [own for own in sys.path if own not in ("", str(ROOT))]
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, streams, _, _ = socket.recv_fds(control, LIMIT_BYTES, 4)
        if not message:
            return
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _begin(json.loads(message), streams, path)
            return
        for stream in streams:
            os.close(stream)


def _begin(
    given: tuple[str, list[str], dict[str, str], str], streams: list[int], path: Any
) -> None:
    """Fork once more: the first tells the pid and the exit code of the second, which is it."""
    module, words, environment, folder = given
    with socket.socket(fileno=streams[0]) as replies:
        pid = os.fork()
        if pid != 0:
            for stream in streams[1:]:
                os.close(stream)
            replies.send(str(pid).encode())
            _, status = os.waitpid(pid, 0)
            replies.send(str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
    for number, stream in enumerate(streams[1:]):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    named = [own for own in environment.get("PYTHONPATH", "").split(os.pathsep) if own]
    sys.path[:] = list(dict.fromkeys([folder, *named, *path]))
    _fork_forkserver()
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _fork_forkserver() -> None:
    """A child that becomes the forkserver of multiprocessing, should this process start one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        message, received, _, _ = socket.recv_fds(theirs, LIMIT_BYTES, 64)
        theirs.close()
        if not message:
            os._exit(0)
        code, numbers = json.loads(message)
        _place(received, numbers)
        sys.argv = ["-c"]
        exec(code, {"__name__": "__main__"})
        os._exit(0)
    theirs.close()
    spawn = multiprocessing_util.spawnv_passfds
    left = [pid]

    def forked(path: bytes, args: Sequence[str], numbers: Sequence[int]) -> int:
        if not left or "multiprocessing.forkserver" not in args[-1]:
            return spawn(path, args, numbers)
        with ours:
            socket.send_fds(ours, [json.dumps([args[-1], list(numbers)]).encode()], list(numbers))
        return left.pop()

    multiprocessing_util.spawnv_passfds = forked


def _place(received: Sequence[int], numbers: Sequence[int]) -> None:
    """Give file descriptors the numbers that they had in the process that sent them."""
    beyond = max([*received, *numbers]) + 1
    for place, own in enumerate(received):
        os.dup2(own, beyond + place)
    for own in received:
        os.close(own)
    for place, number in enumerate(numbers):
        os.dup2(beyond + place, number, inheritable=True)
        os.close(beyond + place)


if __name__ == "__main__":
    _main(socket.socket(fileno=int(sys.argv[1])))
