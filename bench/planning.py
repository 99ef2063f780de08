"""`python -m bench.planning`: from a stored graph to a plan document, medians of whole requests.

Reading the graph, every mesh of up to three axes, the memory limit and writing the plan are in the
time; starting Python and loading compiled code are not (one small plan is made first).
"""

from __future__ import annotations

import gzip
import resource
from functools import partial
from pathlib import Path

from bench.timing import median_seconds, reference_loop, say
from meshwright.schema import Answer, Graph, Request, Search
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan

GRAPHS = Path(__file__).parents[1] / "examples" / "graphs"
CASES = (
    ("wide-deep", "h100-2x8"),
    ("llama3-8b", "h100-8x8"),
    ("llama3-70b", "h100-8x8"),
    ("llama3-70b", "h100-64x8"),
    ("llama3-405b", "h100-128x8"),
    ("llama3-405b", "h100-2048x8"),
    ("gpt3-175b", "a100-80g-128x8"),
    ("mixtral-8x7b", "h100-8x8"),
    ("unet3d", "v100-4x8"),
)


def planned(name: str, cluster: str) -> Answer:
    """One whole request."""
    text = gzip.decompress((GRAPHS / f"{name}.json.gz").read_bytes())
    return plan(Request(graph=Graph.from_json(text), topology=preset(cluster)))


def _gap(search: Search) -> float:
    """Of the cheapest plan found, before one of a shorter step or a simpler one was taken."""
    cheapest_ns = search.cost_ns - search.faster_ns - search.simplicity_ns
    return max(0.0, cheapest_ns - search.lower_bound_ns) / cheapest_ns


def main() -> None:
    reference = median_seconds(reference_loop)[0]
    planned(*CASES[0])
    say(f"{'case':34} {'s':>7} {'ratio':>8} {'gap %':>7} {'peak GB':>8}")
    say(f"{'reference: numpy min-plus 200^3':34} {reference:7.3f} {1.0:8.1f}")
    for name, cluster in CASES:
        seconds, answer = median_seconds(partial(planned, name, cluster))
        gap = f"{100 * _gap(answer.plan.search):7.3f}" if answer.plan else "   none"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        case = f"{name} on {cluster}"
        say(f"{case:34} {seconds:7.2f} {seconds / reference:8.0f} {gap} {peak:8.2f}")


if __name__ == "__main__":
    main()
