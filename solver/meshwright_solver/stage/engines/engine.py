"""A search engine, as the registry describes it.

An engine searches one mesh (`MeshSpace`). It decides one of

    choice        a state for every node of the whole cost graph
    strategies    a strategy for every op; the rest is completed exactly (`completion.py`)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from meshwright_solver.folding.mesh_outcome import MeshOutcome
from meshwright_solver.search.core.cost_graph import CostGraph
from meshwright_solver.search.core.outcome import Proof, SearchBudget
from meshwright_solver.stage.mesh_space import MeshSpace
from meshwright_solver.stage.search_progress import SearchProgress

# Raises TableTooLarge and OutOfTime.
SpaceSearch = Callable[[MeshSpace, SearchBudget, SearchProgress], MeshOutcome]
# The least objective of any plan in ns, whatever the memory. Raises TableTooLarge and OutOfTime.
FloorSearch = Callable[[MeshSpace, SearchBudget, SearchProgress], float]


@dataclass(frozen=True, slots=True)
class Engine:
    """A search engine.

    name: of `Request.solver` and `Plan.search.found_by`.
    proves: by the engine itself. A mesh search adds the bound of the work alone.
    needs: the condition under which the engine can search a mesh, in words.
    floor: the first step of an engine that bounds a mesh before it searches the mesh; `search`
    continues from there.
    is_slow_on: whether a later engine of a portfolio is to search this graph.
    is_simplified: whether elimination can search for a simpler plan than the engine's.
    """

    name: str
    decides: Literal["choice", "strategies"]
    proves: Proof
    needs: str
    search: SpaceSearch
    floor: FloorSearch | None = None
    is_slow_on: Callable[[CostGraph], bool] = lambda _: False
    is_simplified: bool = True
