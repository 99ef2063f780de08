"""`python -m bench.solvers [--verify] [--solver S] [NAME ...]`: every search on every example.

A line a case: what the exact search finds, then each other search: its cost over that. All run with
as many microbatches as the exact plan has. `--verify` executes every plan
(solver/meshwright_solver/verification/verify.py) too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from bench.timing import say
from examples.plan_all import CASES, Case
from meshwright.schema import Answer, Budget, Request
from meshwright.schema.request_options import Solver
from meshwright_solver.planning.planner import plan
from meshwright_solver.verification.verify import verify_documents

BEST: Solver = "dynamic_programming"
OTHERS: tuple[Solver, ...] = (
    "auto",
    "recursive_programming",
    "sharding_propagation",
    "semi_auto",
    "exact",
)
CP_SAT_S = 120.0  # chosen: exact stops there, wherever it is


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="examples; all where none is named")
    parser.add_argument("--verify", action="store_true", help="execute every plan")
    parser.add_argument(
        "--solver", action="append", choices=OTHERS, help="only this one beside the optimum"
    )
    options = parser.parse_args()
    say(f"{'case':34} {'optimum ms':>11} {'gap %':>6} {'s':>6}  others: cost/optimum in s")
    for case in CASES:
        if not options.names or case.name in options.names:
            others = tuple(options.solver or OTHERS)
            for line in _lines(case, others, with_proof=options.verify):
                say(line)


def _lines(case: Case, others: tuple[Solver, ...], *, with_proof: bool) -> Iterator[str]:
    request = case.request.model_copy(update={"solver": BEST, "budget": Budget(simplicity=0)})
    best, seconds = _timed(request)
    name = f"{case.name} on {case.topology}" + (
        f" x{case.microbatches}" if case.microbatches else ""
    )
    if best.plan is None:
        yield f"{name:34} no plan: {best.infeasible.detail if best.infeasible else ''}"
        return
    search = best.plan.search
    yield (
        f"{name:34} {search.cost_ns / 1e6:11.3f} {100 * search.gap:6.3f} {seconds:6.1f}"
        + _proof(best, request, with_proof=with_proof)
    )
    setup = request.setup.model_copy(update={"microbatches": best.plan.microbatches})
    for solver in others:
        budget = Budget(simplicity=0, seconds=CP_SAT_S if solver == "exact" else None)
        own = request.model_copy(update={"solver": solver, "setup": setup, "budget": budget})
        found, seconds = _timed(own)
        if found.plan is None:
            said = f"none: {found.infeasible.constraint if found.infeasible else ''}"
        else:
            said = f"{found.plan.search.cost_ns / search.cost_ns:8.4f}"
        yield f"    {solver:24} {said:>20} {seconds:6.1f}" + _proof(
            found, own, with_proof=with_proof
        )


def _timed(request: Request) -> tuple[Answer, float]:
    started = time.perf_counter()
    answer = plan(request)
    return answer, time.perf_counter() - started


def _proof(answer: Answer, request: Request, *, with_proof: bool) -> str:
    if not with_proof or answer.plan is None:
        return ""
    certificate = verify_documents(
        answer.plan, request.graph, request.topology, request.setup, request.calibration
    )
    return f"  {certificate.outcome}: {certificate.detail}"


if __name__ == "__main__":
    main()
