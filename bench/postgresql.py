"""A PostgreSQL of our own, for tests and measurements: Debian's programs, no network."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import psycopg

USER = "meshwright"
DEBIAN = Path("/usr/lib/postgresql")


class PostgreSQL:
    """A server on a socket in a folder. PostgreSQL refuses to run as root: then as `postgres`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._programs = _programs()
        self._environment = {"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"], **environment}
        self._folder = folder
        self._as = "postgres" if os.geteuid() == 0 else None
        if self._as:
            shutil.chown(folder, self._as, self._as)
        self._run("initdb", "-D", folder / "data", "-U", USER, "-A", "trust", "--no-sync",
                  "--no-locale", "--encoding=UTF8")  # fmt: skip
        self._made = 0

    def start(self) -> None:
        self._control("start")

    def stop(self) -> None:
        """Cut all connections; what was committed stays."""
        self._control("stop", "-m", "fast")

    def kill(self) -> None:
        """End it as a machine does that loses power."""
        pid = int((self._folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        while any(_is_of(int(own.name), pid) for own in Path("/proc").glob("[0-9]*")):
            time.sleep(0.01)  # its children notice, and let go of what they share

    def url(self, database: str) -> str:
        """For SQLAlchemy."""
        return f"postgresql://{USER}@/{database}?host={self._folder}"

    def create(self, template: str = "template1") -> str:
        """A database of its own; its name."""
        self._made += 1
        name = f"made_{self._made}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, name: str) -> None:
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement: str, database: str = "postgres") -> None:
        at = f"host={self._folder} user={USER} dbname={database}"
        with psycopg.connect(at, autocommit=True) as connection:
            connection.execute(statement.encode())

    def run(self, program: str, *arguments: str | Path) -> None:
        """Run one of its programs as a client of the server: host and user are given to it."""
        own = ("-h", self._folder, "-U", USER)
        subprocess.run(
            [shutil.which(program) or self._programs / program, *own, *arguments], check=True,
            timeout=60,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def _control(self, *words: str) -> None:
        settings = f"-k {self._folder} -c listen_addresses= -c max_connections=200"
        self._run("pg_ctl", "-D", self._folder / "data", "-l", self._folder / "log", "-w",
                  "-o", f"{settings} -c fsync=off", *words)  # fmt: skip

    def _run(self, program: str, *arguments: str | Path) -> None:
        ran = subprocess.run(
            [self._programs / program, *arguments], user=self._as, cwd=self._folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, check=False, text=True,
            env=self._environment,
        )  # fmt: skip
        if ran.returncode:
            raise RuntimeError(f"{program} ended with {ran.returncode}: {ran.stderr}")


@contextmanager
def running(
    within: Path | None = None, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[PostgreSQL]:
    """A server that ends with the block, in a folder of its own, by default of the system's.

    within: as short a path as that; a socket's may have 107 bytes at most. environment: of the
    server, beside what it needs.
    """
    folder = Path(tempfile.mkdtemp(prefix="meshwright-pg-", dir=within))
    made = PostgreSQL(folder, environment)
    try:
        made.start()
        yield made
    finally:
        try:
            made.stop()
        finally:
            shutil.rmtree(folder)


def _is_of(process: int, leader: int) -> bool:
    """Whether a process is one of a server's, all of which are in the session of its first."""
    try:
        return os.getsid(process) == leader
    except ProcessLookupError:
        return False


def _programs() -> Path:
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    versions = sorted(DEBIAN.glob("*/bin"), key=lambda path: float(path.parent.name))
    if not versions:
        raise RuntimeError("PostgreSQL is not installed: make test does that as root on Debian")
    return versions[-1]
