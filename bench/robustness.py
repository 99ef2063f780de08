"""`python -m bench.robustness [OPS ...]`: everything but the search, on large graphs.

Every stage of a request on a random series-parallel graph (`bench.series_parallel`), one process a
size, from the JSON text to the plan's. What depends on a mesh (filters, lowering, unfolding) is
done for one of the finest meshes of three axes; a request does it for all of them. Instead of a
search a choice is made node by node. Times are of the CPU. Peak memory is the process's, with the
graph's text in it.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from bench.series_parallel import series_parallel
from bench.timing import in_own_processes, say
from meshwright.schema import Graph, Plan, Request, Setup
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.constraints.pins import matching_pins, pinned_ops
from meshwright_solver.constraints.strategy_filters import filters
from meshwright_solver.folding.fold import Folding, fold
from meshwright_solver.folding.folded_plan import FoldedPlans
from meshwright_solver.folding.mesh_outcome import MeshOutcome
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.lowering.lower import Lowered, lower
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.search.core.cost_graph import CostEdge, evaluate_choice
from meshwright_solver.search.core.outcome import Outcome
from meshwright_solver.stage.answer import plan_of
from meshwright_solver.stage.lower_bounds import least_memory_bytes
from meshwright_solver.stage.mesh_space import broken_pin
from meshwright_solver.stage.parameter_bound import parameter_shortfall
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import StrategyFilter
from meshwright_solver.strategies.op_templates import OpSketches

T = TypeVar("T")
CLUSTER = "h100-8x8"
SIZES = (1_000, 10_000, 100_000)
BEFORE = (
    "reading", "checking", "folding", "problem", "values", "filters", "lowering", "unfolding"
)  # fmt: skip
AFTER = ("plan", "to JSON")


class Staged:
    """A request without its search; seconds: CPU time of each stage done so far."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, stage: str, work: Callable[[], T]) -> T:
        """What `work` gives, its time put down."""
        started = time.process_time()
        found = work()
        self.seconds[stage] = time.process_time() - started
        return found

    def before(self, text: str, setup: Setup) -> Unfolding:
        """From the text to the cost graph."""
        graph = self.timed("reading", lambda: Graph.from_json(text))
        self.request = Request(graph=graph, topology=preset(CLUSTER), setup=setup)
        self.timed("checking", lambda: parameter_shortfall(self.request))
        folding = self.timed("folding", lambda: fold(graph, matching_pins(graph, ())))
        topology, calibration = self.request.topology, default_calibration()
        problem = self.timed(
            "problem", lambda: build_problem(folding.graph, topology, setup, calibration)
        )
        values = self.timed("values", lambda: find_values(problem))
        models = Models(problem, values, meshes(topology, 3)[-1], OpSketches(problem, values))
        given = self.timed("filters", lambda: self._filters(models, folding))
        limit = problem.memory_limit_bytes
        lowered = self.timed("lowering", lambda: lower(models, given, limit))
        return self.timed("unfolding", lambda: Unfolding(folding, lowered))

    def _filters(self, models: Models, folding: Folding) -> dict[int, StrategyFilter]:
        pins = pinned_ops(models.problem, (), models.values.views)
        given = filters(models.problem, self.request, pins, models.values, models.mesh)
        assert broken_pin(models, given.all) is None
        least_memory_bytes(models, folding)
        return given.all

    def after(self, unfolding: Unfolding, choice: IntArray) -> Plan:
        """From a choice to the plan's text."""
        found = evaluate_choice(unfolding.graph, choice)
        outcome = Outcome("feasible", choice, found.cost_ns, found.memory_bytes, 0.0, None)
        best = MeshOutcome(outcome, unfolding.lowered.models, "chosen", unfolding)
        plan = self.timed(
            "plan", lambda: plan_of(self.request, [best], best, FoldedPlans().of(best), ())
        )
        self.timed("to JSON", plan.to_json)
        return plan


def stages(text: str, setup: Setup) -> tuple[dict[str, float], Lowered]:
    """CPU seconds of each stage before the search, and the cost graph."""
    staged = Staged()
    unfolding = staged.before(text, setup)
    return staged.seconds, unfolding.lowered


def node_by_node(lowered: Lowered) -> IntArray:
    """Every node at its cheapest beside those that chose before it, parameters last.

    A parameter may rest no coarser than its reader needs, so that it has to choose after it.
    """
    nodes = lowered.graph.nodes
    joined: list[list[CostEdge]] = [[] for _ in nodes]
    decided: dict[int, tuple[int, IntArray]] = {}
    for edge in lowered.graph.edges:
        if isinstance(edge, CostEdge):
            joined[edge.tail].append(edge)
            joined[edge.head].append(edge)
        else:
            decided[edge.head] = (edge.tail, edge.select)
    parameters = [*lowered.parameter_node.values()]
    first = sorted({*range(len(nodes))} - {*parameters})
    found = np.full(len(nodes), -1, dtype=np.int64)
    for k in (*first, *parameters):
        if k in decided:
            tail, select = decided[k]
            found[k] = select[found[tail]]
            continue
        cost = nodes[k].cost
        for edge in joined[k]:
            other = edge.head if edge.tail == k else edge.tail
            if found[other] >= 0:
                table = edge.cost if edge.head == k else edge.cost.T
                cost = cost + table[found[other]]
        found[k] = int(cost.argmin())
    return found


def row(ops: int) -> None:
    """One line of the table."""
    staged = Staged()
    unfolding = staged.before(series_parallel(ops).to_json(), Setup())
    graph = unfolding.graph
    staged.after(unfolding, node_by_node(unfolding.lowered))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    times = " ".join(f"{staged.seconds[stage]:9.2f}" for stage in (*BEFORE, *AFTER))
    total = sum(staged.seconds.values())
    say(f"{ops:9,} {times} {total:9.2f} {peak:8.2f} {len(graph.nodes):9,} {len(graph.edges):9,}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.robustness")
    parser.add_argument("ops", nargs="*", type=int, default=list(SIZES), help="sizes of graphs")
    columns = " ".join(f"{stage:>9}" for stage in (*BEFORE, *AFTER))
    say(f"{'ops':>9} {columns} {'all, s':>9} {'peak GB':>8} {'nodes':>9} {'edges':>9}")
    in_own_processes(row, parser.parse_args().ops)


if __name__ == "__main__":
    main()
