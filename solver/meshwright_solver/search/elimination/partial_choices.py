"""Labels: partial choices along a walk through the steps, many at a time.

A label holds the choices of its nodes and, under each of J weights, the least value of any
completion. Only its live nodes, which later steps still read, matter for its completions: of two
labels with the same live states, the one with more cost and more memory is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit

_LARGEST_KEY = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LabelLevel:
    """`values[j, label]`, `live[label, column]`, and each label's parent among `parents`."""

    level: int
    values: FloatArray
    live: IntArray
    parents: LabelLevel | None
    parent: IntArray
    state: IntArray

    def __len__(self) -> int:
        return int(self.values.shape[1])

    def subset(self, which: IntArray) -> LabelLevel:
        return LabelLevel(
            self.level,
            self.values[:, which],
            self.live[which],
            self.parents,
            self.parent[which],
            self.state[which],
        )

    def states_backwards(self, label: int) -> list[int]:
        """The states taken at levels level-1, level-2, .. 0."""
        states = []
        labels: LabelLevel = self
        while labels.parents is not None:
            states.append(int(labels.state[label]))
            label = int(labels.parent[label])
            labels = labels.parents
        return states


def kinds(columns: IntArray, extents: tuple[int, ...]) -> IntArray:
    """A number for every row, equal where the rows are."""
    keys = np.zeros(len(columns), dtype=np.int64)
    range_of_keys = 1
    for column, extent in zip(columns.T, extents, strict=True):
        if range_of_keys * extent > _LARGEST_KEY:
            distinct, keys = np.unique(keys, return_inverse=True)
            range_of_keys = len(distinct)
        keys = keys * extent + column
        range_of_keys *= extent
    return keys


def undominated(kind: IntArray, cost: FloatArray, memory: FloatArray) -> IntArray:
    """Labels that no other of their kind undercuts in both cost and memory; of equals the first."""
    order = np.lexsort((cost, memory, kind))
    return np.sort(order[_compiled_lowers(kind[order], cost[order])])


def _lowers(kind: IntArray, cost: FloatArray) -> IntArray:
    """Places where the cost falls below all earlier ones of its kind; kinds are contiguous."""
    places = np.empty(kind.size, dtype=np.int64)
    count = 0
    least = 0.0
    for place in range(kind.size):
        if place == 0 or kind[place] != kind[place - 1] or cost[place] < least:
            least = cost[place]
            places[count] = place
            count += 1
    return places[:count]


def branches(
    values: FloatArray, regrets: FloatArray, kind: IntArray, ceilings: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Every label with every state whose values stay within the ceilings: (label, state, values).

    `regrets[kind, j, state]` is what the state adds to value j of labels of that kind.
    """
    return _compiled_branches(values, regrets, kind, ceilings)


def _branches(
    values: FloatArray, regrets: FloatArray, kind: IntArray, ceilings: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    weights, labels = values.shape
    states = regrets.shape[2]
    count = 0
    for label in range(labels):
        for state in range(states):
            within = True
            for j in range(weights):
                if values[j, label] + regrets[kind[label], j, state] > ceilings[j]:
                    within = False
                    break
            if within:
                count += 1
    label_of = np.empty(count, dtype=np.int64)
    state_of = np.empty(count, dtype=np.int64)
    sums = np.empty((weights, count))
    count = 0
    for label in range(labels):
        for state in range(states):
            within = True
            for j in range(weights):
                if values[j, label] + regrets[kind[label], j, state] > ceilings[j]:
                    within = False
                    break
            if within:
                label_of[count] = label
                state_of[count] = state
                for j in range(weights):
                    sums[j, count] = values[j, label] + regrets[kind[label], j, state]
                count += 1
    return label_of, state_of, sums


_compile = njit(cache=True, nogil=True)
_compiled_lowers = cast(Callable[[IntArray, FloatArray], IntArray], _compile(_lowers))
_compiled_branches = cast(
    Callable[[FloatArray, FloatArray, IntArray, FloatArray], tuple[IntArray, IntArray, FloatArray]],
    _compile(_branches),
)
