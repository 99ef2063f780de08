"""`python -m bench.message_search [OPS ...]`: the search for very large graphs, alone.

Random series-parallel graphs (`bench.series_parallel`), lowered on one finest mesh of three axes,
one process a size: under the device's own memory limit, and under 0.85 of what the cheapest choice
takes. CPU seconds of the search to a gap of 0.1 %, peak memory of the process before it and with
it, and how far the choice is above the best known: of `dynamic_programming` on graphs that it can
hold, else the bound.
"""

from __future__ import annotations

import argparse
import resource
import time

from bench.robustness import stages
from bench.series_parallel import series_parallel
from bench.timing import in_own_processes, say
from meshwright.schema import Setup
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.search.message_passing.message_search import message_search

SIZES = (300, 1_000, 3_000, 10_000, 100_000)
HELD = 3_000  # chosen: ops up to which dynamic_programming is asked too; 20 s
SHARE = 0.85


def rows(ops: int) -> None:
    """Two lines of the table, after a small graph that loads what is compiled."""
    small = stages(series_parallel(30).to_json(), Setup())[1].graph
    message_search(CostGraph(small.nodes, small.edges, 0.0), SearchBudget())
    message_search(CostGraph(small.nodes, small.edges), SearchBudget())
    graph = stages(series_parallel(ops).to_json(), Setup())[1].graph
    own = graph.memory_limit_bytes
    cheapest = message_search(
        CostGraph(graph.nodes, graph.edges), SearchBudget(tolerance=TOLERANCE)
    )
    for name, limit in (("device", own), (f"{SHARE}", SHARE * cheapest.memory_bytes)):
        limited = CostGraph(graph.nodes, graph.edges, limit)
        before, started = _peak(), time.process_time()
        found = message_search(limited, SearchBudget(tolerance=TOLERANCE))
        seconds, peak = time.process_time() - started, _peak()
        gap = (found.cost_ns - found.lower_bound_ns) / found.cost_ns
        best = "-"
        if ops <= HELD:
            least = dynamic_programming(limited, SearchBudget(seconds=60.0, tolerance=1e-4))
            best = f"{100 * (found.cost_ns / least.cost_ns - 1):.4f}"
        say(
            f"{ops:8,} {name:>7} {len(graph.nodes):8,} {len(graph.edges):8,} {seconds:8.2f} "
            f"{before:6.2f} {peak:6.2f} {found.cost_ns / 1e6:10.3f} {100 * gap:8.4f} {best:>9}"
        )


def _peak() -> float:
    """Peak memory of the process so far, GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.message_search")
    parser.add_argument("ops", nargs="*", type=int, default=list(SIZES), help="sizes of graphs")
    say(
        f"{'ops':>8} {'limit':>7} {'nodes':>8} {'edges':>8} {'CPU s':>8} {'GB':>6} {'to GB':>6} "
        f"{'cost ms':>10} {'gap %':>8} {'above %':>9}"
    )
    in_own_processes(rows, parser.parse_args().ops)


if __name__ == "__main__":
    main()
