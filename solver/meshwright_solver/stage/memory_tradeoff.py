"""Plans along the price of memory: the cost of less memory, without a search for any limit.

On every mesh, the vertices of the lower hull (`search/elimination/lower_hull.py`). Over all meshes,
those that no mix of two others beats by a margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import inf

from meshwright.schema import Mesh
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.folding.folded_plan import FoldedPlan
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.core.memory_bracket import PricedStates
from meshwright_solver.search.core.outcome import SearchBudget, TableTooLarge
from meshwright_solver.search.elimination.elimination_order import elimination_program
from meshwright_solver.search.elimination.evaluated_program import solve
from meshwright_solver.search.elimination.lower_hull import hull
from meshwright_solver.stage.mesh_space import MeshSpaces

_BEATEN = 1e-2  # chosen: of the objective; of nearer ones the shorter step is not known
# measured: mixtral-8x7b on three axes has 13 million numbers in its tables, and each vertex takes
# 0.4 s; gpt3-175b and llama3-405b have 2 million
_MOST_ENTRIES = 5_000_000
_LEAST = 0.4  # chosen: of the limit; ranks that hold few microbatches have more room than that


@dataclass(frozen=True, slots=True)
class _Vertex:
    unfolding: Unfolding
    priced: PricedStates

    @property
    def ns(self) -> float:
        return self.priced.cost.cost_ns

    @property
    def bytes(self) -> float:
        return self.priced.cost.memory_bytes


def plans_along_prices(
    spaces: MeshSpaces, candidates: Sequence[Mesh], most: int
) -> list[FoldedPlan]:
    """Plans from the cheapest to the leanest, at most `most` of each mesh; none if even the leanest
    seem not to fit, unless only the cheapest are wanted. Raises OutOfTime, TableTooLarge."""
    vertices: list[_Vertex] = []
    for space in spaces.possible(candidates):
        vertices += _vertices(space.unfolding, most, spaces.deadline)
    selected = sorted(
        [vertex for vertex in vertices if not _is_beaten(vertex, vertices)],
        key=lambda vertex: vertex.ns,
    )
    plans = [FoldedPlan(vertex.unfolding.lowered.models, vertex.unfolding, vertex.priced.choice)
             for vertex in selected]  # fmt: skip
    # the leanest first: mostly one plan has to be judged
    return plans if most == 1 or any(plan.over_bytes <= 0 for plan in reversed(plans)) else []


def _vertices(whole: Unfolding, most: int, deadline: Deadline) -> list[_Vertex]:
    budget, graph = SearchBudget(), whole.graph
    program = elimination_program(graph, budget.max_table_entries, budget.max_held_entries)
    if program.entries() > _MOST_ENTRIES:
        raise TableTooLarge("the whole graph", program.entries(), _MOST_ENTRIES)
    cheapest = solve(program, CostWeights(1.0, 0.0), deadline)
    if cheapest.value == inf:
        return []
    limit = inf if graph.memory_limit_bytes is None else graph.memory_limit_bytes
    line = hull(cheapest, most, _LEAST * limit, deadline)
    return [_Vertex(whole, priced) for priced in line]


def _is_beaten(vertex: _Vertex, every: Sequence[_Vertex]) -> bool:
    """Whether a mix of two others, which takes no more memory, costs less by a margin."""
    enough = vertex.ns * (1 - _BEATEN)
    if any(other.bytes <= vertex.bytes and other.ns < enough for other in every):
        return True
    larger = [other for other in every if other.bytes > vertex.bytes and other.ns < vertex.ns]
    smaller = [other for other in every if other.bytes < vertex.bytes]
    for over, under in product(larger, smaller):
        share = (vertex.bytes - under.bytes) / (over.bytes - under.bytes)
        if share * over.ns + (1 - share) * under.ns < enough:
            return True
    return False
