"""Min-sum elimination of the whole cost graph, in two steps: the floor, then the memory limit."""

from __future__ import annotations

from meshwright_solver.folding.mesh_outcome import MeshOutcome
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import DynamicProgramming
from meshwright_solver.search.elimination.elimination_order import nodes_apart
from meshwright_solver.stage.engines.engine import Engine
from meshwright_solver.stage.mesh_space import MeshSpace
from meshwright_solver.stage.search_progress import SearchProgress

_NAME = "dynamic_programming"
# measured: elimination spends 0.1 ms on each before it has a table, message passing less in all
_MOST_APART = 20_000


def _floor(space: MeshSpace, budget: SearchBudget, progress: SearchProgress) -> float:
    report = progress.reporter(_NAME, space.mesh)
    space.elimination = DynamicProgramming(space.unfolding.graph, budget, report)
    return space.elimination.floor_ns


def _search(space: MeshSpace, budget: SearchBudget, progress: SearchProgress) -> MeshOutcome:
    if space.elimination is None:
        _floor(space, budget, progress)
    assert space.elimination is not None
    outcome = space.elimination.outcome(budget)
    return MeshOutcome(outcome, space.models, _NAME, space.unfolding)


def _is_slow_on(graph: CostGraph) -> bool:
    return int(nodes_apart(graph).sum()) > _MOST_APART


DYNAMIC_PROGRAMMING = Engine(
    _NAME,
    decides="choice",
    proves="optimum",
    needs="tables within the budget's entries",
    search=_search,
    floor=_floor,
    is_slow_on=_is_slow_on,
)
