"""The interned tables of elimination. `evaluated_program.solve` computes them for weights:

    GraphArray    an array of the graph, weighted
    Minimum       min over a variable of a sum of other tables
    Substituted   another table, one axis replaced by the variable that decides it
    Sliced        another table at the only state of one axis
    Decided       0 where head == select[tail], inf elsewhere: a projection made dense

Projections are numbered too. They stay index vectors and depend on no weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.core.cost_graph import CostEdge, CostNode
from meshwright_solver.search.core.interned_tables import InternedTables
from meshwright_solver.search.elimination.min_sum import MinSumPlan


@dataclass(frozen=True, slots=True)
class Term:
    """A table within a sum; axis 0 is the minimised variable, 1.. its neighbours."""

    table: int
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GraphArray:
    cost: FloatArray
    memory: FloatArray | None


@dataclass(frozen=True, slots=True)
class Minimum:
    terms: tuple[Term, ...]
    groupings: tuple[Term, ...]
    extents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Substituted:
    source: int
    projection: int
    axis: int
    merged_axis: int | None


@dataclass(frozen=True, slots=True)
class Sliced:
    source: int
    axis: int


@dataclass(frozen=True, slots=True)
class Decided:
    projection: int


@dataclass(frozen=True, slots=True)
class Select:
    """A projection as an index vector."""

    states: IntArray


Definition = GraphArray | Minimum | Substituted | Sliced | Decided | Select


class TableRegistry(InternedTables[Definition]):
    def __init__(self) -> None:
        super().__init__()
        self._recipes: dict[int, MinSumPlan | None] = {}

    def leaf(self, part: CostNode | CostEdge) -> int:
        memory = part.memory
        return self.intern(
            ("leaf", id(part.cost), id(memory)),
            GraphArray(part.cost, memory),
            part.cost.shape,
            memory is not None,
        )

    def select(self, states: IntArray, head_extent: int) -> int:
        key = ("select", id(states), head_extent)
        return self.intern(key, Select(states), (len(states), head_extent), False)

    def composed(self, first: int, second: int) -> int:
        """The projection that applies `first`, then `second`."""
        key = ("composed", first, second)
        number = self.known(key)
        if number is not None:
            return number
        shape = (self.shapes[first][0], self.shapes[second][1])
        states = self.states(second)[self.states(first)]
        return self.intern(key, Select(states), shape, False)

    def decided(self, projection: int) -> int:
        shape = self.shapes[projection]
        return self.intern(("decided", projection), Decided(projection), shape, False)

    def minimum(self, minimum: Minimum) -> int:
        memory = any(self.has_memory[term.table] for term in minimum.terms)
        return self.intern(minimum, minimum, minimum.extents[1:], memory)

    def substituted(self, substituted: Substituted) -> int:
        shape = list(self.shapes[substituted.source])
        shape[substituted.axis] = self.shapes[substituted.projection][0]
        if substituted.merged_axis is not None:
            del shape[substituted.merged_axis]
        memory = self.has_memory[substituted.source]
        return self.intern(substituted, substituted, tuple(shape), memory)

    def sliced(self, source: int, axis: int) -> int:
        shape = self.shapes[source]
        definition = Sliced(source, axis)
        memory = self.has_memory[source]
        return self.intern(definition, definition, shape[:axis] + shape[axis + 1 :], memory)

    def states(self, projection: int) -> IntArray:
        definition = self.definitions[projection]
        assert isinstance(definition, Select)
        return definition.states

    def recipe(self, number: int, minimum: Minimum) -> MinSumPlan | None:
        """The plan of a minimum, shared by all weights; None for groupings, a loop or slices."""
        if number not in self._recipes:
            axes = [term.axes for term in minimum.terms]
            shapes = [self.shapes[term.table] for term in minimum.terms]
            plan = None if minimum.groupings else MinSumPlan.of(axes, minimum.extents, shapes)
            self._recipes[number] = plan
        return self._recipes[number]
