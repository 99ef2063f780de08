"""`python -m bench.planning [CASE ...]`: from a stored graph to a plan document, whole requests.

The default request, without a time limit, in this process: all meshes, pipelines, schedules,
microbatches and recompute policies. Reading the graph and writing the plan are in the time,
starting Python and loading compiled code are not. `first` is the time until
the search offers a plan, `gap` how far the step may be above that of the best plan.
"""

from __future__ import annotations

import gzip
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.timing import median_seconds, reference_loop, say
from meshwright.schema import Answer, Budget, Graph, Request, Setup
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from meshwright_solver.stage.best_so_far import Make

GRAPHS = Path(__file__).parents[1] / "examples" / "graphs"


@dataclass(frozen=True, slots=True)
class Case:
    """A stored graph on a preset. batch, seq: None for those of the graph."""

    graph: str
    topology: str
    batch: int | None = None
    seq: int | None = None

    def __str__(self) -> str:
        sizes = {"batch": self.batch, "seq": self.seq}
        return " ".join(
            [f"{self.graph} {self.topology}", *(f"{k} {v}" for k, v in sizes.items() if v)]
        )

    def request(self) -> Request:
        text = gzip.decompress((GRAPHS / f"{self.graph}.json.gz").read_bytes())
        return Request(
            graph=Graph.from_json(text),
            topology=preset(self.topology),
            setup=Setup(
                global_batch=self.batch, symbols={} if self.seq is None else {"seq": self.seq}
            ),
            budget=Budget(seconds=None),
        )


CASES = (
    Case("wide-deep", "h100-2x8"),
    Case("unet3d", "v100-4x8"),
    Case("llama3-8b", "h100-8x8"),
    Case("mixtral-8x7b", "h100-8x8", batch=256),
    Case("llama3-70b", "h100-8x8"),
    Case("llama3-70b", "h100-64x8"),
    Case("gpt3-175b", "a100-80g-128x8"),
    Case("llama3-405b", "h100-2048x8", batch=2048),
    Case("llama3-8b", "h100-8x8", batch=1, seq=1_048_576),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A request, from reading the graph to the plan document."""

    seconds: float
    first_seconds: float
    answer: Answer


def planned(name: str, cluster: str) -> Answer:
    """The answer of the default request."""
    return plan(Case(name, cluster).request())


def measured(case: Case) -> Measured:
    """One run of a case."""
    started = time.perf_counter()
    first: list[float] = []

    def keep(make: Make) -> None:
        if not first and make() is not None:
            first.append(time.perf_counter() - started)

    answer = plan(case.request(), keep=keep)
    if answer.plan is not None:
        answer.plan.to_json()
    seconds = time.perf_counter() - started
    return Measured(seconds, first[0] if first else seconds, answer)


def main() -> None:
    wanted = sys.argv[1:]
    reference = median_seconds(reference_loop)[0]
    planned("wide-deep", "h100-2x8")
    say(f"{'case':42} {'s':>7} {'ratio':>8} {'first s':>8} {'step ms':>10} {'gap %':>7} {'GB':>6}")
    say(f"{'reference: numpy min-plus 200^3':42} {reference:7.3f} {1.0:8.1f}")
    for case in CASES:
        if wanted and case.graph not in wanted:
            continue
        run = measured(case)
        row = f"{case!s:42} {run.seconds:7.2f} {run.seconds / reference:8.0f} "
        row += f"{run.first_seconds:8.2f} "
        if run.answer.plan is None:
            say(row + "no plan")
            continue
        step_ns = run.answer.plan.cost.step_ns
        bound_ns = run.answer.plan.search.step_bound_ns or 0.0
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        say(row + f"{step_ns / 1e6:10.1f} {100 * (1 - bound_ns / step_ns):7.1f} {peak:6.2f}")


if __name__ == "__main__":
    main()
