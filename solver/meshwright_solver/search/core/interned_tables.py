"""Interned tables: equal definitions get one number, so that a table that repeats is computed once.

A definition is symbolic. Its numbers come from the arrays of the graph, weighted:

    weighted = cost_weight * cost + memory_weight * memory,     forbidden where the cost is
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from meshwright_solver.common.arrays import FloatArray

D = TypeVar("D")


class CostWeights(NamedTuple):
    """The weight of a nanosecond, and of a byte in ns."""

    cost: float
    memory: float


def weighted(cost: FloatArray, memory: FloatArray | None, weights: CostWeights) -> FloatArray:
    """An array of the graph under weights, of the shape of `cost`; inf where the cost is."""
    if weights.cost == 0.0:
        base = np.where(np.isinf(cost), np.inf, 0.0)
    else:
        base = cost if weights.cost == 1.0 else cost * weights.cost
    if memory is None or weights.memory == 0.0:
        return base
    return base + weights.memory * memory


class InternedTables(Generic[D]):
    """Definitions by number. Grows only; a number is larger than those it is computed from.

    shapes, has_memory: of each table, and whether the weight of memory changes it. Keys may name
    arrays by identity: the definitions hold them, so that no identity is used twice.
    """

    def __init__(self) -> None:
        self.definitions: list[D] = []
        self.shapes: list[tuple[int, ...]] = []
        self.has_memory: list[bool] = []
        self._numbers: dict[Hashable, int] = {}

    def known(self, key: Hashable) -> int | None:
        return self._numbers.get(key)

    def intern(self, key: Hashable, definition: D, shape: tuple[int, ...], has_memory: bool) -> int:
        """The number of an equal definition, or a new one."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.definitions)
            self.definitions.append(definition)
            self.shapes.append(shape)
            self.has_memory.append(has_memory)
        return number
