"""A measurement that is told to end takes what it has begun with it, and its files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.service.conftest import ROOT, until

# begins a process that leaves for the background, as databases do, with one of its own
BEGUN = """
import os, subprocess, sys, tempfile
from pathlib import Path
from bench.ending import measured
WAITS = "import threading; threading.Event().wait()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + WAITS
def main():
    begun = subprocess.Popen([sys.executable, "-c", DEAF])
    daemon = os.fork()
    if daemon == 0:
        os.setsid()
        subprocess.Popen([sys.executable, "-c", DEAF])
        os._exit(0)
    os.waitpid(daemon, 0)
    Path(tempfile.mkdtemp(), "ready").touch()
    try:
        begun.wait()
    finally:
        {finally_}
measured(main)
"""
DIES = BEGUN.format(finally_="os.abort()")
HANGS = BEGUN.format(finally_="Path(tempfile.mkdtemp(), 'ending').touch(); begun.wait()")


@contextmanager
def measuring(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """It, and the folder whose name all that it begins has in its command or its environment."""
    with tempfile.TemporaryDirectory(prefix="e-") as name:  # pytest's are too long for a socket
        Path(name).chmod(0o755)
        process = subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, env={**os.environ, "TMPDIR": name},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            yield process, Path(name)
        finally:
            for number in commands(Path(name)):
                os.kill(number, signal.SIGKILL)
            process.wait(timeout=120)


def commands(folder: Path) -> dict[int, str]:
    """Of the processes that belong to it."""
    found = {}
    for own in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = ((own / part).read_bytes() for part in ("cmdline", "environ"))
        except OSError:
            continue
        if os.fsencode(folder) in command + environment:
            found[int(own.name)] = command.replace(b"\0", b" ").decode()
    return found


def begun(folder: Path, *words: str) -> Callable[[], bool]:
    """Whether commands that say these words run."""
    return lambda: all(
        any(word in command for command in commands(folder).values()) for word in words
    )


def there(folder: Path, name: str) -> Callable[[], bool]:
    return lambda: bool(list(folder.rglob(name)))


def test_a_fleet_told_twice_at_once_leaves_nothing() -> None:
    """As `timeout` does it: the measurement, then its group."""
    with measuring("-m", "bench.fleet", "--jobs", "100000") as (process, folder):
        until(
            begun(
                folder,
                "postgres",
                "meshwright_service.cli serve",
                "meshwright_service.cli worker",
            ),
            seconds=60,
        )
        process.send_signal(signal.SIGTERM)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(timeout=120) == 128 + signal.SIGTERM
        assert not commands(folder)
        assert not list(folder.iterdir())


def test_one_that_dies_leaves_nothing() -> None:
    with measuring("-c", DIES) as (process, folder):
        until(there(folder, "ready"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 128 + signal.SIGTERM
        assert not commands(folder)
        assert not list(folder.iterdir())


def test_one_that_hangs_is_killed_by_a_second_signal() -> None:
    with measuring("-c", HANGS) as (process, folder):
        until(there(folder, "ready"))
        process.send_signal(signal.SIGTERM)
        until(there(folder, "ending"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 128 + signal.SIGTERM
        assert not commands(folder)


def test_one_whose_owner_is_killed_ends_in_order() -> None:
    with measuring("-c", HANGS) as (process, folder):
        until(there(folder, "ready"))
        process.kill()
        until(there(folder, "ending"))


@pytest.mark.parametrize(("main", "status"), [("print", 0), ("lambda: 1 / 0", 1)])
def test_the_status_is_the_measurements(main: str, status: int) -> None:
    code = f"from bench.ending import measured; measured({main})"
    with measuring("-c", code) as (process, folder):
        assert process.wait(timeout=120) == status
        assert not list(folder.iterdir())
