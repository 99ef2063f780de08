"""The interned vectors and tables of message passing, computed at given weights.

Arrays that a graph of 100,000 ops shares stay shared: nodes and edges hold numbers, and an
operation on many of equal number runs once.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.core.interned_tables import CostWeights, InternedTables, weighted
from meshwright_solver.search.elimination.min_plus import product


@dataclass(frozen=True, slots=True)
class PickedArray:
    """An array of the graph, of a node or an edge; picked[i, j] = array[rows[i], columns[j]]."""

    cost: FloatArray
    memory: FloatArray | None
    rows: IntArray | None = None
    columns: IntArray | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """0 where rows[i] == columns[j], elsewhere forbidden."""

    rows: IntArray
    columns: IntArray


@dataclass(frozen=True, slots=True)
class Transposed:
    table: int


@dataclass(frozen=True, slots=True)
class Diagonal:
    """vector[i] = table[i, i]."""

    table: int


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of two vectors, or of two tables."""

    one: int
    other: int


@dataclass(frozen=True, slots=True)
class VectorMinimum:
    """vector[j] = min over i of vector[i] + table[i, j]."""

    vector: int
    table: int


@dataclass(frozen=True, slots=True)
class Product:
    """table[i, j] = min over s of left[s, i] + vector[s] + right[s, j]."""

    left: int
    vector: int
    right: int


Definition = PickedArray | Agreement | Transposed | Diagonal | Sum | VectorMinimum | Product


class Definitions(InternedTables[Definition]):
    """Interned definitions, in an order in which each depends only on earlier ones."""

    def __init__(self) -> None:
        super().__init__()
        self._unpriced: dict[int, FloatArray] = {}

    def number(self, definition: Definition, shape: tuple[int, ...]) -> int:
        """The number of a vector or table of this shape."""
        has_memory = isinstance(definition, PickedArray) and definition.memory is not None
        has_memory = has_memory or any(self.has_memory[part] for part in _parts(definition))
        return self.intern(_key(definition), definition, shape, has_memory)

    def transposed(self, table: int) -> int:
        definition = self.definitions[table]
        if isinstance(definition, Transposed):
            return definition.table
        return self.number(Transposed(table), self.shapes[table][::-1])

    def at(self, weights: CostWeights, wanted: IntArray) -> dict[int, FloatArray]:
        """Compute the wanted definitions and their parts; those that no price changes only once."""
        arrays: dict[int, FloatArray] = {}
        for number in self._needed(wanted):
            if weights.cost == 1.0 and not self.has_memory[number]:
                if number not in self._unpriced:
                    self._unpriced[number] = _computed(
                        self.definitions[number], weights, self._unpriced
                    )
                arrays[number] = self._unpriced[number]
            else:
                arrays[number] = _computed(self.definitions[number], weights, arrays)
        return arrays

    def _needed(self, wanted: IntArray) -> list[int]:
        stack = sorted({int(number) for number in wanted})
        needed: set[int] = set()
        while stack:
            number = stack.pop()
            if number not in needed:
                needed.add(number)
                stack.extend(_parts(self.definitions[number]))
        return sorted(needed)


def _key(definition: Definition) -> Hashable:
    """Arrays by identity: the definitions hold them, so that no identity is used twice."""
    return type(definition), *(
        value if isinstance(value, int) else id(value)
        for value in (getattr(definition, name) for name in definition.__slots__)
    )


def _parts(definition: Definition) -> tuple[int, ...]:
    match definition:
        case Transposed(table) | Diagonal(table):
            return (table,)
        case Sum(one, other):
            return (one, other)
        case VectorMinimum(vector, table):
            return (vector, table)
        case Product(left, vector, right):
            return (left, vector, right)
        case _:
            return ()


def _computed(
    definition: Definition, weights: CostWeights, known: dict[int, FloatArray]
) -> FloatArray:
    match definition:
        case PickedArray(cost, memory, rows, columns):
            return _picked(weighted(cost, memory, weights), rows, columns)
        case Agreement(rows, columns):
            return np.where(rows[:, None] == columns[None, :], 0.0, np.inf)
        case Transposed(table):
            return np.ascontiguousarray(known[table].T)
        case Diagonal(table):
            diagonal: FloatArray = known[table].diagonal().copy()
            return diagonal
        case Sum(one, other):
            return known[one] + known[other]
        case VectorMinimum(vector, table):
            least: FloatArray = (known[vector][:, None] + known[table]).min(axis=0)
            return least
        case Product(left, vector, right):
            first = np.ascontiguousarray((known[left] + known[vector][:, None]).T)
            minimum: FloatArray = product(first[None], known[right][None])[0]
            return minimum


def _picked(table: FloatArray, rows: IntArray | None, columns: IntArray | None) -> FloatArray:
    if rows is not None:
        table = table[rows]
    return table if columns is None else np.ascontiguousarray(table[:, columns])
