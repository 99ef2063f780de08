"""Commands of an installation outside of the repository."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

START_S = 120.0  # chosen: a cold start that compiles, on a busy machine


def variables(**given: str) -> dict[str, str]:
    """The environment of a new user, without the variables of the tests."""
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    return {"PATH": "/usr/bin:/bin", **kept, **given}


def run(
    command: Sequence[str | Path], cwd: Path, environment: Mapping[str, str], *, code: int = 0
) -> str:
    """The standard output of a command that ends with this code."""
    ran = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert ran.returncode == code, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout


@contextmanager
def serving(
    command: Sequence[str | Path], cwd: Path, environment: Mapping[str, str]
) -> Iterator[str]:
    """The URL that a service prints; it is ended after the block."""
    with (
        (cwd / "errors").open("w") as errors,
        subprocess.Popen(
            command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            found = re.search(r"http://[0-9.]+:\d+", process.stdout.readline())
            assert found, (cwd / "errors").read_text()
            yield found[0]
        finally:
            process.terminate()
