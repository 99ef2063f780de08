"""`python -m bench.executed [NAME ...]`: every example's plan executed in numpy, and simulated.

The examples of docs/explanation/examples.md, the published configurations as stated, and the plans
that searches over pipelines and recompute find for five of these. Devices: of the scaled-down
meshes of all stages; ops: run on them, one for each device; CPU s: of verification alone. Step: as
the plan says, as its simulation has it, and by how much the former is off.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from bench.published_configurations import CASES as PUBLISHED
from bench.timing import say
from examples.plan_all import CASES as EXAMPLES
from meshwright.common.units import show_ns
from meshwright.schema import Pipeline, Plan, Recompute, Request, Setup
from meshwright_solver.planning.planner import plan
from meshwright_solver.simulation.step import step_of
from meshwright_solver.verification.execution.scaled_mesh import scaled_mesh
from meshwright_solver.verification.verify import verify_documents

SEARCHED = ("gpt3-1024", "llama3-70b-64", "llama3-405b-16384", "mixtral-64", "llama3-8b-1m")
COLUMNS = (
    "plan", "stages", "ops", "devices", "outcome", "worst", "buckets", "CPU s",
    "step", "simulated", "off",
)  # fmt: skip


def requests() -> Iterator[tuple[str, Request]]:
    """What is planned, by name."""
    for case in EXAMPLES:
        often = f" x{case.microbatches}" if case.microbatches else ""
        yield f"{case.name} {case.topology}{often}", case.request
    for own in PUBLISHED:
        yield f"{own.name} stated", own.request()
    for own in PUBLISHED:
        if own.name in SEARCHED:
            order = own.setup.sequence_order
            setup = Setup(global_batch=own.batch, symbols=own.setup.symbols, sequence_order=order)
            wishes = {
                "setup": setup,
                "degrees": None,
                "pipeline": Pipeline(ranks=None),
                "recompute": Recompute(policy="auto"),
            }
            yield f"{own.name} searched", own.request().model_copy(update=wishes)


def row(name: str, request: Request) -> str:
    """One line of the table."""
    found = plan(request).plan
    if found is None:
        return f"| {name} | no plan |"
    started = time.process_time()
    proof = verify_documents(
        found, request.graph, request.topology, request.setup, request.calibration
    )
    seconds = time.process_time() - started
    step = step_of(found, request.graph, request.topology, request.setup, request.calibration)
    cells = (
        name,
        f"{len(found.stages)}",
        f"{executed_ops(found):,}",
        f"{sum(scaled_mesh(stage).device_count for stage in found.stages):,}",
        f"{proof.outcome} {proof.detail}".strip(),
        f"{proof.worst_error:.1e}",
        f"{proof.buckets}",
        f"{seconds:.1f}",
        show_ns(found.cost.step_ns),
        show_ns(step.ns),
        f"{found.cost.step_ns / step.ns - 1:+.1%}",
    )
    return f"| {' | '.join(cells)} |"


def executed_ops(found: Plan) -> int:
    """On all devices of the small meshes."""
    return sum(len(stage.ops) * scaled_mesh(stage).device_count for stage in found.stages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="what names begin with; all by default")
    names: list[str] = parser.parse_args().names
    say(f"| {' | '.join(COLUMNS)} |")
    say("|---" * len(COLUMNS) + "|")
    for name, request in requests():
        if not names or name.startswith(tuple(names)):
            say(row(name, request))


if __name__ == "__main__":
    main()
