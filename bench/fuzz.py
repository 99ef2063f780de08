"""`python -m bench.fuzz [--examples N] [--seed S] [--postgresql]`: the API under schemathesis.

A server in a process of its own, with a key and a plan. schemathesis makes requests of the whole
OpenAPI document, valid ones and broken ones, and chains of them, half of them about what is there
(bench.fuzz_hooks): no answer may be a 5xx, have a status or a body that the document does not name,
or be given without the key. What is valid by the schema alone may be refused: a graph has rules
that no schema says. Deleting comes last: of what is deleted nothing more can be found out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.ending import end, measured
from bench.faulty_service import ROOT
from bench.fuzz_hooks import IDS
from bench.postgresql import running
from bench.small_net import asked
from meshwright.agent.service import AgentClient
from meshwright.schema import Graph, Setup
from meshwright.schema.agent import Agent

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
        environment = {
            **os.environ,
            "SCHEMATHESIS_HOOKS": "bench.fuzz_hooks",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            IDS: json.dumps(_there(url, key)),
        }
        return max(
            subprocess.run(
                [*command, which, "DELETE"], cwd=folder, env=environment, check=False
            ).returncode
            for which in ("--exclude-method", "--include-method")
        )


def _there(url: str, key: str) -> dict[str, str]:
    """Has a plan made and executed, and registers an agent: ids, by what paths and queries call
    them."""
    agent = Agent(name="fuzzed", backend="gloo", hosts=("here",), device="CPU", devices=2)
    with AgentClient(url, key=key) as client:
        net = asked("net")
        graph, setup = Graph.from_dict(net["graph"]), Setup.from_dict(net["setup"])
        plan = client.plan(graph, net["topology"], setup=setup, verify=True).plan
        (job,) = client.jobs()
        assert plan is not None
        return {
            "plan": plan.id, "from_plan": plan.id, "to_plan": plan.id, "graph": plan.graph,
            "topology": plan.topology, "setup": plan.setup, "calibration": plan.calibration,
            "job": job["id"], "agent": client.register_agent(agent)["id"], "rank": "0",
            "target": "dtensor",
        }  # fmt: skip


@contextmanager
def _serving(store: str, folder: Path) -> Iterator[tuple[str, str]]:
    """A server: its URL and a key that may do everything."""
    environment = {
        **os.environ,
        "MESHWRIGHT_DATA_DIR": str(folder),
        "MESHWRIGHT_MAX_WAIT_S": "1",
    }
    command = [sys.executable, "-m", "meshwright_service.cli"]
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
        yield found[0], key.stdout.strip()
    finally:
        end(process)


if __name__ == "__main__":
    measured(main)
