"""`python -m bench.sweep [--faults] [--rows NAME ...]`: points a second of sweeps.

The sweeps plan Llama-3 8B and 70B for a target, 30 points each, on eight to 256 devices: in local
processes, at a service and on Dask. Each row of the table begins with an empty store. `--faults`
instead kills the API five times during a sweep of 30 points: the points that were lost, and the
searches that ran twice.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.fleet import dask_cluster
from bench.load import serving
from bench.timing import median_seconds, reference_loop, say
from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.schema import Graph
from meshwright.schema.sweep import Sweep, SweepResult
from meshwright.sweeps import run_sweep

GRAPHS = Path(__file__).parents[1] / "examples" / "graphs"
TOPOLOGIES = ("h100-{1,2,4,8,16,32}x8", "b200-{1,2,4,8}x8")
KILLS = 5


def sweep_of(target: str) -> Sweep:
    """30 points of a target."""
    return Sweep.from_dict(
        {"topologies": TOPOLOGIES, "batches": [256, 512, 1024], "targets": [target]}
    )


def graphs() -> dict[str, Graph]:
    return {
        name: read_document(GRAPHS / f"{name}.json.gz", Graph)
        for name in ("llama3-8b", "llama3-70b")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="megatron-core")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--rows", nargs="*", default=[], help="beginnings of the rows to measure")
    args = parser.parse_args()
    if args.faults:
        _faults(sweep_of(args.target))
        return
    say("| where | points | planned | s | points a second | ratio |")
    say("| --- | --- | --- | --- | --- | --- |")
    reference_s, _ = median_seconds(reference_loop)
    sweep, models = sweep_of(args.target), graphs()
    for workers in (1, 2):
        name = f"local, {workers} process{'es' * (workers > 1)}"
        if not _is_wanted(name, args.rows):
            continue
        say(
            _row(
                name,
                lambda workers=workers: [
                    run_sweep(sweep, graph, workers=workers) for graph in models.values()
                ],
                reference_s,
            )
        )
    for name, workers, has_dask in (
        ("service, 1 worker", 1, False),
        ("service, 2 workers", 2, False),
        ("service, 2 workers, Dask with 2", 2, True),
    ):
        if not _is_wanted(name, args.rows):
            continue
        with (
            tempfile.TemporaryDirectory(prefix="meshwright-sweep-") as folder,
            ExitStack() as stack,
        ):
            environment = {"MESHWRIGHT_WORKERS": str(workers)}
            if has_dask:
                environment["MESHWRIGHT_DASK_SCHEDULER"] = stack.enter_context(
                    dask_cluster(Path(folder))
                )
            store = f"sqlite:///{Path(folder) / 'meshwright.db'}"
            url, _ = stack.enter_context(serving(store, Path(folder), environment))
            client = stack.enter_context(Client(url))
            say(
                _row(
                    name,
                    lambda client=client: [client.sweep(graph, sweep) for graph in models.values()],
                    reference_s,
                )
            )
    say(f"| numpy reference loop | | | {reference_s:.4f} | | 1 |")


def _is_wanted(name: str, beginnings: Sequence[str]) -> bool:
    return not beginnings or any(name.startswith(beginning) for beginning in beginnings)


def _row(name: str, work: Callable[[], Sequence[SweepResult]], reference_s: float) -> str:
    began = time.perf_counter()
    rows = [row for result in work() for row in result.rows]
    seconds = time.perf_counter() - began
    planned = sum(row.state == "planned" for row in rows)
    rate = len(rows) / seconds
    ratio = seconds / reference_s
    return f"| {name} | {len(rows)} | {planned} | {seconds:.1f} | {rate:.2f} | {ratio:,.0f} |"


def _faults(sweep: Sweep) -> None:
    graph = graphs()["llama3-8b"]
    with tempfile.TemporaryDirectory(prefix="meshwright-sweep-") as folder:
        store = f"sqlite:///{Path(folder) / 'meshwright.db'}"
        sweep_id = ""
        for kill in range(KILLS):
            with serving(store, Path(folder)) as (url, pid), Client(url) as client:
                sweep_id = sweep_id or client.begin_sweep(graph, sweep)["id"]
                done = client.get_sweep(sweep_id)["done"]
                while client.get_sweep(sweep_id)["done"] < done + 2:
                    time.sleep(0.2)
                time.sleep(0.37 * kill)  # at another moment of a search each time
                os.kill(pid, signal.SIGKILL)
        with serving(store, Path(folder)) as (url, _), Client(url) as client:
            result = client.sweep(graph, sweep)
            jobs = list(client.jobs())
    say("| kills of the API | points | planned | lost | jobs | attempts |")
    say("| --- | --- | --- | --- | --- | --- |")
    planned = sum(row.state == "planned" for row in result.rows)
    lost = sum(row.state in ("failed", "cancelled", "deleted") for row in result.rows)
    attempts = sum(job["attempt"] for job in jobs)
    say(f"| {KILLS} | {len(result.rows)} | {planned} | {lost} | {len(jobs)} | {attempts} |")


if __name__ == "__main__":
    main()
