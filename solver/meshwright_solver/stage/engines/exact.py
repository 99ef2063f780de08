"""The cost graph as an integer program, which starts from the plan of recursive programming."""

from __future__ import annotations

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.folding.mesh_outcome import MeshOutcome
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.integer.integer_program import exact
from meshwright_solver.stage.engines.engine import Engine
from meshwright_solver.stage.engines.recursive_programming import RECURSIVE_PROGRAMMING
from meshwright_solver.stage.mesh_space import MeshSpace
from meshwright_solver.stage.search_progress import SearchProgress

_NAME = "exact"


def _search(space: MeshSpace, budget: SearchBudget, progress: SearchProgress) -> MeshOutcome:
    unfolding = space.unfolding
    start = _start(space, budget, progress)
    report = progress.reporter(_NAME, space.mesh)
    outcome = exact(unfolding.graph, budget, report, start)
    return MeshOutcome(outcome, space.models, _NAME, unfolding)


def _start(space: MeshSpace, budget: SearchBudget, progress: SearchProgress) -> IntArray | None:
    """The plan of recursive programming as a choice of the whole cost graph, shape (nodes,)."""
    plan = RECURSIVE_PROGRAMMING.search(space, budget, progress)
    if plan.unfolding is None or plan.outcome.choice is None:
        return None
    return space.unfolding.choice_from(plan.unfolding, plan.outcome.choice)


EXACT = Engine(
    _NAME,
    decides="choice",
    proves="optimum",
    needs="three million pairs of states after reductions",
    search=_search,
)
