"""`python -m bench.iopddl FILE.json.gz --seconds N`: one instance of the IOPDDL contest, one line.

    {"cost":, "lower_bound":, "feasible":, "seconds":, "solution": [...]}

`--solution-only` prints the bare list, as the contest wants it. The process ends within N seconds,
imports and reading included. Without FILE it solves instance G of tests/data/iopddl.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

from bench.timing import say
from solver.cost_graph import (
    FORBIDDEN,
    CostGraph,
    CostGraphError,
    Edge,
    FloatArray,
    Node,
)
from solver.lagrangian_search import LagrangianSearch
from solver.outcome import Budget

_EXAMPLE = Path(__file__).parents[1] / "tests/data/iopddl/asplos-2025-iopddl-G.json.gz"
_FORBIDDEN_FROM = 1e17  # published: the contest's infinity is 1e18, its costs stay below 1e13
_FINISH_SHARE, _FINISH_SECONDS = 0.015, 1.2  # chosen: to judge the last choice, print it, and end
_LATE_SHARE = 0.5  # chosen: of the time to finish that the search may take
_START_SECONDS = 1.5  # chosen: of the process, where the system does not say when it started


class InstanceError(ValueError):
    """A file that is no instance: what was found, and what would do."""


def read_instance(path: Path) -> CostGraph:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as handle:
            problem = json.loads(handle.read())["problem"]
        return instance(problem)
    except OSError as error:
        raise InstanceError(f"{path}: cannot be read: {error}") from error
    except KeyError as error:
        raise InstanceError(f"{path}: no entry {error}; see shared/data/iopddl") from error
    except (ValueError, TypeError, IndexError) as error:
        raise InstanceError(f"{path}: no instance of the contest: {error}") from error


def instance(problem: dict[str, dict[str, list[list[int]]]]) -> CostGraph:
    """The contest's cost graph: usage as bytes, cost as ns."""
    nodes, edges = problem["nodes"], problem["edges"]
    node_costs = _costs(nodes["costs"])
    usages = _split(nodes["usages"])
    shapes = [len(costs) for costs in node_costs]
    tables = _costs(edges["costs"])
    limit = problem.get("usage_limit")
    return CostGraph(
        tuple(
            Node(str(number), costs, usage)
            for number, (costs, usage) in enumerate(zip(node_costs, usages, strict=True))
        ),
        tuple(
            Edge(tail, head, table.reshape(shapes[tail], shapes[head]))
            for (tail, head), table in zip(edges["nodes"], tables, strict=True)
        ),
        None if limit is None else float(limit),  # type: ignore[arg-type]  # JSON: a number
        lifetimes=np.array(nodes["intervals"], dtype=np.int64).reshape(-1, 2),
    )


def _costs(rows: list[list[int]]) -> list[FloatArray]:
    return _split(rows, _FORBIDDEN_FROM)


def _split(rows: list[list[int]], forbidden_from: float = FORBIDDEN) -> list[FloatArray]:
    """Rows as views of one array: converting each on its own takes three times as long."""
    flat = np.array(list(itertools.chain.from_iterable(rows)), dtype=np.float64)
    flat[flat >= forbidden_from] = FORBIDDEN
    return np.split(flat, np.cumsum([len(row) for row in rows])[:-1])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.iopddl", description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=_EXAMPLE)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--cores", type=int, default=2, choices=(1, 2))
    parser.add_argument("--solution-only", action="store_true")
    parsed = parser.parse_args(arguments)
    started = time.monotonic() - _age_seconds()
    try:
        graph = read_instance(parsed.file)
    except (InstanceError, CostGraphError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    ends = started + (1 - _FINISH_SHARE) * parsed.seconds - _FINISH_SECONDS
    left = max(ends - time.monotonic(), 0.0)
    search = LagrangianSearch(graph, Budget(seconds=left), cores=parsed.cores)
    # where it is still being compiled, the search cannot see that the time is over
    running = threading.Thread(target=search.outcome, daemon=True)
    running.start()
    running.join(left + _LATE_SHARE * _FINISH_SECONDS)
    found = search.so_far()
    solution = None if found.choice is None else found.choice.tolist()
    if parsed.solution_only:
        say(json.dumps(solution))
    else:
        say(
            json.dumps(
                {
                    "cost": None if solution is None else int(found.cost_ns),
                    "lower_bound": found.lower_bound_ns,
                    "feasible": solution is not None,
                    "seconds": round(time.monotonic() - started, 2),
                    "solution": solution,
                }
            )
        )
    return 0 if solution is not None else 3


def _age_seconds() -> float:
    """Since this process started, Python's own start and the imports included."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return _START_SECONDS


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # at once: freeing what a large instance holds takes a second
