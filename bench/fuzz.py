"""`python -m bench.fuzz [--examples N] [--seed S] [--postgresql]`: the API under schemathesis.

A server in a process of its own, with a key and a plan. schemathesis makes requests of the whole
OpenAPI document, valid ones and broken ones, and chains of them: no answer may be a 5xx, have a
status or a body that the document does not name, or be given without the key. What is valid by the
schema alone may be refused: a graph has rules that no schema says.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from bench.ending import end, measured
from bench.postgresql import running
from bench.small_net import asked

# by the schema alone: a key's secret is named as what the path calls its id
LEFT_OUT = "positive_data_acceptance,ensure_resource_availability"
# coverage walks the bounds of every field, thousands of cases; stateful follows links
PHASES = ("examples", "coverage", "fuzzing", "stateful")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=100, help="of each operation, about")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgresql", action="store_true", help="a PostgreSQL of its own")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meshwright-fuzz-")))
        store = f"sqlite:///{folder / 'meshwright.db'}"
        if given.postgresql:
            server = stack.enter_context(running())
            store = server.url(server.create())
        sys.exit(fuzz(store, folder, examples=given.examples, seed=given.seed))


def fuzz(
    store: str, folder: Path, *, examples: int, seed: int, phases: Sequence[str] = PHASES
) -> int:
    """The exit status of schemathesis: 0 where it found nothing."""
    with _serving(store, folder) as (url, key):
        command = [
            sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json",
            "--header", f"Authorization: Bearer {key}",
            "--checks", "all", "--exclude-checks", LEFT_OUT,
            "--max-examples", str(examples), "--seed", str(seed), "--phases", ",".join(phases),
            "--no-color", "--generation-database", "none", "--request-timeout", "20",
        ]  # fmt: skip
        return subprocess.run(command, cwd=folder, check=False).returncode


@contextmanager
def _serving(store: str, folder: Path) -> Iterator[tuple[str, str]]:
    """A server with a plan: its URL and a key that may do everything."""
    environment = {
        **os.environ,
        "MESHWRIGHT_DATA_DIR": str(folder),
        "MESHWRIGHT_MAX_WAIT_S": "1",
    }
    command = [sys.executable, "-m", "service.cli"]
    of_store = ["--database", store]
    subprocess.run([*command, "db", "upgrade", *of_store], env=environment, check=True)
    made = [*command, "keys", "create", *of_store]
    key = subprocess.run(made, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    process = subprocess.Popen(
        [*command, "serve", "--port", "0", *of_store],
        stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        found = re.search(r"http://[0-9.]+:\d+", process.stdout.readline())
        assert found
        headers = {"Authorization": f"Bearer {key.stdout.strip()}", "Prefer": "wait=60"}
        httpx.post(f"{found[0]}/v1/plan", json=asked("net"), headers=headers, timeout=90)
        yield found[0], key.stdout.strip()
    finally:
        end(process)


if __name__ == "__main__":
    measured(main)
