"""Tables by number: equal definitions get one number, so a table that repeats is computed once.

A definition is symbolic. Its numbers come from `TableSet.compute` for weights (w_cost, w_memory):

    Leaf          w_cost * cost + w_memory * memory, inf where cost is
    Minimum       min over a variable of a sum of other tables
    Substituted   another table, one axis replaced by the variable that decides it
    Sliced        another table at the only state of one axis
    Decided       0 where head == select[tail], inf elsewhere: a projection made dense

Projections are numbered too. They stay index vectors and depend on no weights.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from solver.cost_graph import Edge, FloatArray, IntArray, Node
from solver.elimination.minimum import Recipe


@dataclass(frozen=True, slots=True)
class Term:
    """A table within a sum; axis 0 is the minimised variable, 1.. its neighbours."""

    table: int
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
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


Definition = Leaf | Minimum | Substituted | Sliced | Decided | Select


class TableRegistry:
    """Grows only; a table's number is larger than those it is computed from."""

    def __init__(self) -> None:
        self.definitions: list[Definition] = []
        self.shapes: list[tuple[int, ...]] = []
        self.has_memory: list[bool] = []
        self._numbers: dict[Hashable, int] = {}
        self._recipes: dict[int, Recipe | None] = {}

    def leaf(self, part: Node | Edge) -> int:
        memory = part.memory
        return self._number(
            ("leaf", id(part.cost), id(memory)),
            Leaf(part.cost, memory),
            part.cost.shape,
            memory is not None,
        )

    def select(self, states: IntArray, head_extent: int) -> int:
        key = ("select", id(states), head_extent)
        return self._number(key, Select(states), (len(states), head_extent), False)

    def composed(self, first: int, second: int) -> int:
        """The projection that follows one and then the other."""
        key = ("composed", first, second)
        if key in self._numbers:
            return self._numbers[key]
        shape = (self.shapes[first][0], self.shapes[second][1])
        states = self.states(second)[self.states(first)]
        return self._number(key, Select(states), shape, False)

    def decided(self, projection: int) -> int:
        shape = self.shapes[projection]
        return self._number(("decided", projection), Decided(projection), shape, False)

    def minimum(self, minimum: Minimum) -> int:
        memory = any(self.has_memory[term.table] for term in minimum.terms)
        return self._number(minimum, minimum, minimum.extents[1:], memory)

    def substituted(self, substituted: Substituted) -> int:
        shape = list(self.shapes[substituted.source])
        shape[substituted.axis] = self.shapes[substituted.projection][0]
        if substituted.merged_axis is not None:
            del shape[substituted.merged_axis]
        memory = self.has_memory[substituted.source]
        return self._number(substituted, substituted, tuple(shape), memory)

    def sliced(self, source: int, axis: int) -> int:
        shape = self.shapes[source]
        definition = Sliced(source, axis)
        memory = self.has_memory[source]
        return self._number(definition, definition, shape[:axis] + shape[axis + 1 :], memory)

    def states(self, projection: int) -> IntArray:
        definition = self.definitions[projection]
        assert isinstance(definition, Select)
        return definition.states

    def recipe(self, number: int, minimum: Minimum) -> Recipe | None:
        """How the minimum of this number is taken, where that does not depend on its numbers."""
        if number not in self._recipes:
            axes = [term.axes for term in minimum.terms]
            shapes = [self.shapes[term.table] for term in minimum.terms]
            found = None if minimum.groupings else Recipe.of(axes, minimum.extents, shapes)
            self._recipes[number] = found
        return self._recipes[number]

    def _number(
        self, key: Hashable, definition: Definition, shape: tuple[int, ...], memory: bool
    ) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.definitions)
            self.definitions.append(definition)
            self.shapes.append(shape)
            self.has_memory.append(memory)
        return number
