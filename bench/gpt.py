"""`python -m bench.gpt [--axes N]`: MindSpore's benchmark GPT, 48 layers on 512 devices, one mesh.

Seconds of a search from the problem on: strategies, tables and the search itself, forward and
backward, under the memory limit. *first*: in a process that has planned nothing but a small graph;
the others are medians. MindSpore 2.10.0's recursive programming takes 0.97 s for the forward pass
of the same 1,254 operators (its own log, otherwise idle machine).
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

from bench.mindspore_models import gpt, mlp
from bench.timing import median_seconds, say
from meshwright.schema import Graph, Mesh, Setup, Topology
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.constraints.meshes import meshes
from meshwright_solver.folding.fold import Folding, fold
from meshwright_solver.folding.mesh_outcome import TOLERANCE
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.lowering.lower import lower
from meshwright_solver.problem.problem import Problem, build_problem
from meshwright_solver.problem.values import Values, find_values
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.stage.heuristics.recursive_programming import recursive_programming
from meshwright_solver.strategies.mesh_models import Models

CLUSTER = "h100-64x8"


class Case:
    """A graph on a cluster, up to where a search begins."""

    def __init__(self, graph: Graph, devices: Topology) -> None:
        self.folding: Folding = fold(graph, {})
        self.problem: Problem = build_problem(
            self.folding.graph, devices, Setup(), default_calibration(), 1
        )
        self.values: Values = find_values(self.problem)

    def recursive(self, mesh: Mesh) -> str:
        """A strategy for every op."""
        models = Models(self.problem, self.values, mesh)
        limit = self.problem.memory_limit_bytes
        found = next(recursive_programming(models, self.folding, {}, limit))
        return f"{len(found)} ops of the folded graph"

    def exact(self, mesh: Mesh) -> str:
        """The optimum, to the planner's tolerance."""
        models = Models(self.problem, self.values, mesh)
        lowered = lower(models, {}, self.problem.memory_limit_bytes)
        unfolding = Unfolding(self.folding, lowered)
        found = dynamic_programming(unfolding.graph, SearchBudget(tolerance=TOLERANCE))
        gap = (found.cost_ns - found.lower_bound_ns) / found.cost_ns
        return f"{found.cost_ns / 1e6:.2f} ms, gap {100 * gap:.3f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--axes", type=int, default=3, choices=(2, 3, 4), help="at most")
    most = parser.parse_args().axes
    devices = preset(CLUSTER)
    small = Case(mlp().graph, preset("h100-2x8"))
    for mesh in meshes(preset("h100-2x8"), 3):
        small.recursive(mesh)
        small.exact(mesh)
    case = Case(gpt(layers=48, hidden=4096, heads=32).graph, devices)
    say(f"{'search':34} {'mesh':24} {'first s':>8} {'s':>8} {'peak GB':>8}  found")
    for axes in range(2, most + 1):
        mesh = meshes(devices, axes)[0]
        _row(f"recursive_programming, {axes} axes", mesh, case.recursive)
        _row(f"dynamic_programming, {axes} axes", mesh, case.exact)


def _row(name: str, mesh: Mesh, work: Callable[[Mesh], str]) -> None:
    started = time.perf_counter()
    work(mesh)
    first = time.perf_counter() - started
    seconds, found = median_seconds(lambda: work(mesh))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    shape = " x ".join(str(axis.size) for axis in mesh.axes)
    say(f"{name:34} {shape:24} {first:8.3f} {seconds:8.3f} {peak:8.2f}  {found}")


if __name__ == "__main__":
    main()
