"""`python -m bench.transfer`: from two plan documents to a transfer between them."""

from __future__ import annotations

import gzip
import resource
from functools import cache, partial
from pathlib import Path

from bench.one_stage import ONE_STAGE
from bench.timing import median_seconds, reference_loop, say
from meshwright.schema import Graph, Request, Setup
from meshwright.schema.transfer import Transfer
from meshwright.transfers.pieces import device_transfer
from meshwright_costmodel.presets import preset
from meshwright_solver.layouts.transfers.plans import PlanDocuments, transfer_plans
from meshwright_solver.planning.planner import plan

GRAPHS = Path(__file__).parents[1] / "examples" / "graphs"
CASES = (
    ("llama3-8b", "h100-8x8", "h100-6x8", 0),
    ("llama3-8b", "h100-6x8", "h100-8x8", 0),
    ("llama3-8b", "h100-8x8", "h100-6x8", 64),
    ("llama3-405b", "h100-128x8", "h100-64x8", 0),
    ("llama3-405b", "h100-64x8", "h100-128x8", 512),
)


@cache
def documents(name: str, cluster: str) -> PlanDocuments:
    """A plan and what it is about; the plan's id is computed here."""
    graph = Graph.from_json(gzip.decompress((GRAPHS / f"{name}.json.gz").read_bytes()))
    answer = plan(Request(graph=graph, **ONE_STAGE, topology=preset(cluster)))
    assert answer.plan is not None
    assert answer.plan.id
    return PlanDocuments(answer.plan, graph, preset(cluster), Setup())


def moved(name: str, source: str, target: str, first: int) -> Transfer:
    """One transfer."""
    return transfer_plans(documents(name, source), documents(name, target), first=first)


def main() -> None:
    reference = median_seconds(reference_loop)[0]
    say(f"{'case':52} {'s':>6} {'ratio':>6} {'sends':>10} {'moved':>9} {'kept':>9} {'ms':>6} "
        f"{'device s':>8} {'peak GB':>8}")  # fmt: skip
    say(f"{'reference: numpy min-plus 200^3':52} {reference:6.3f} {1.0:6.1f}")
    for name, source, target, first in CASES:
        documents(name, source), documents(name, target)
        seconds, found = median_seconds(partial(moved, name, source, target, first))
        device_s = median_seconds(partial(device_transfer, found, first))[0]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        case = f"{name} {source} -> {target}" + (f" from device {first}" if first else "")
        say(
            f"{case:52} {seconds:6.2f} {seconds / reference:6.0f} {found.sends:10,} "
            f"{found.moved_bytes / 1e9:6.0f} GB {found.kept_bytes / 1e9:6.0f} GB "
            f"{found.ns / 1e6:6.0f} {device_s:8.2f} {peak:8.2f}"
        )


if __name__ == "__main__":
    main()
