"""`python -m bench.large [OPS ...]`: whole requests for large graphs without repeats.

Random series-parallel graphs (`bench.series_parallel`) on 64 GPUs, all finest meshes of three axes,
`auto`, memory limit on: from the graph's JSON text to the plan's. One process a size, in which a
small graph was planned before, so that compiled code is loaded; peak memory is that process's. The
gap is that of the cheapest plan found; *over* is what the objective of the plan is above it, for a
shorter step.
"""

from __future__ import annotations

import argparse
import resource
import time

from bench.one_stage import ONE_STAGE
from bench.series_parallel import series_parallel
from bench.timing import in_own_processes, say
from meshwright.schema import Graph, Request
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan

CLUSTER = "h100-8x8"
SIZES = (1_000, 10_000, 100_000)
WARM = 300  # ops: more than elimination is asked to do at once, so that message passing is loaded


def request(text: str) -> Request:
    return Request(graph=Graph.from_json(text), **ONE_STAGE, topology=preset(CLUSTER))


def row(ops: int) -> None:
    """One line of the table."""
    plan(request(series_parallel(WARM).to_json()))
    plan(request(series_parallel(20_000, seed=1).to_json()))
    text = series_parallel(ops).to_json()
    started, cpu = time.perf_counter(), time.process_time()
    answer = plan(request(text))
    written = answer.plan.to_json() if answer.plan is not None else ""
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found = "no plan"
    if answer.plan is not None:
        search, step_ns = answer.plan.search, answer.plan.cost.step_ns
        cheapest_ns = search.cost_ns - search.faster_ns - search.simplicity_ns
        gap = 100 * (cheapest_ns - search.lower_bound_ns) / cheapest_ns
        over = 100 * (search.cost_ns - cheapest_ns) / cheapest_ns
        found = f"{step_ns / 1e6:10.2f} {gap:8.4f} {over:7.2f}  {search.found_by}"
    say(f"{ops:9,} {seconds:8.1f} {cpu_s:8.1f} {peak:8.2f} {len(written) / 1e6:8.1f} {found}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ops", nargs="*", type=int, default=list(SIZES), help="sizes of graphs")
    columns = ("s", "CPU s", "peak GB", "plan MB")
    numbers = " ".join(f"{name:>8}" for name in columns)
    say(f"{'ops':>9} {numbers} {'step ms':>10} {'gap %':>8} {'over %':>7}")
    in_own_processes(row, parser.parse_args().ops)


if __name__ == "__main__":
    main()
