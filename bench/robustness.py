"""`python -m bench.robustness [OPS ...]`: what comes before the search, on large graphs.

Every stage of a request on a random series-parallel graph (`bench.series_parallel`), one process a
size: reading the JSON text, folding, the problem, its values, lowering on the finest mesh of three
axes. Peak memory is the process's, with the graph's text in it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import TypeVar

from bench.series_parallel import series_parallel
from bench.timing import say
from costmodel.calibrations import default_calibration
from costmodel.presets import preset
from meshwright.schema import Graph, Setup
from solver.folding import fold
from solver.lowering import Lowered, Models, lower
from solver.meshes import meshes
from solver.problem import build_problem
from solver.values import find_values

T = TypeVar("T")
CLUSTER = "h100-8x8"
SIZES = (1_000, 10_000, 100_000)
STAGES = ("reading", "folding", "problem", "values", "lowering")


def stages(text: str, setup: Setup) -> tuple[dict[str, float], Lowered]:
    """Seconds of each stage, and the cost graph."""
    seconds: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], T]) -> T:
        started = time.perf_counter()
        found = work()
        seconds[stage] = time.perf_counter() - started
        return found

    topology, calibration = preset(CLUSTER), default_calibration()
    graph = timed("reading", lambda: Graph.from_json(text))
    folding = timed("folding", lambda: fold(graph, {}))
    problem = timed("problem", lambda: build_problem(folding.graph, topology, setup, calibration))
    values = timed("values", lambda: find_values(problem))
    mesh = meshes(topology, 3)[-1]
    limit = topology.device.memory_bytes * (1 - setup.memory_reserve)
    lowered = timed("lowering", lambda: lower(Models(problem, values, mesh), {}, limit))
    return seconds, lowered


def row(ops: int) -> None:
    """One line of the table."""
    text = series_parallel(ops).to_json()
    seconds, lowered = stages(text, Setup())
    graph = lowered.graph
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    times = " ".join(f"{seconds[stage]:9.2f}" for stage in STAGES)
    total = sum(seconds.values())
    say(f"{ops:9,} {times} {total:9.2f} {peak:8.2f} {len(graph.nodes):9,} {len(graph.edges):9,}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.robustness")
    parser.add_argument("ops", nargs="*", type=int, default=list(SIZES), help="sizes of graphs")
    columns = " ".join(f"{stage:>9}" for stage in STAGES)
    say(f"{'ops':>9} {columns} {'all, s':>9} {'peak GB':>8} {'nodes':>9} {'edges':>9}")
    for ops in parser.parse_args().ops:
        # a process of its own: peak memory never falls
        process = multiprocessing.get_context("spawn").Process(target=row, args=(ops,))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
