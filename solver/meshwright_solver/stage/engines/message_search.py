"""Message passing on the whole cost graph: a choice and a bound where tables are too large."""

from __future__ import annotations

from dataclasses import replace

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.folding.mesh_outcome import MeshOutcome
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.message_passing.message_search import message_search
from meshwright_solver.stage.engines.engine import Engine
from meshwright_solver.stage.mesh_space import MeshSpace
from meshwright_solver.stage.search_progress import SearchProgress

_NAME = "message_search"


def _search(space: MeshSpace, budget: SearchBudget, progress: SearchProgress) -> MeshOutcome:
    def over_bytes(choice: IntArray) -> float:
        excess_bytes = space.plans.of_choice(space.models, space.unfolding, choice).over_bytes
        if excess_bytes > 0:
            progress.history.forget(space.mesh)
        return excess_bytes

    budget = replace(budget, over_bytes=over_bytes)
    report = progress.reporter(_NAME, space.mesh)
    outcome = message_search(space.unfolding.graph, budget, report)
    return MeshOutcome(outcome, space.models, _NAME, space.unfolding)


MESSAGE_SEARCH = Engine(
    _NAME,
    decides="choice",
    proves="bound",
    needs="no lifetimes",
    search=_search,
    is_simplified=False,  # the search for a simpler plan has tables as large
)
