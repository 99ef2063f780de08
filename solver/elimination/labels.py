"""Labels: partial choices along a walk through the steps, many at a time.

A label says how its nodes were chosen, and under each of J weights the least value any completion has. Only
the states of live nodes, those that later steps still read, matter for what may follow: of two labels with
the same live states, the one with more cost and more memory is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.cost_graph import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Labels:
    """`values[j, label]`, `live[label, column]`, and how each label came from one of `parents`."""

    level: int
    values: FloatArray
    live: IntArray
    parents: Labels | None
    parent: IntArray
    state: IntArray

    def __len__(self) -> int:
        return self.values.shape[1]

    def taken(self, which: IntArray) -> Labels:
        return Labels(
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
        labels: Labels = self
        while labels.parents is not None:
            states.append(labels.state.item(label))
            label = labels.parent.item(label)
            labels = labels.parents
        return states


def groups(columns: IntArray) -> tuple[IntArray, IntArray]:
    """(one row of each distinct kind, for every row the number of its kind)."""
    if columns.shape[1] == 0 or len(columns) == 1:
        return np.zeros(1, dtype=np.int64), np.zeros(len(columns), dtype=np.int64)
    keys = columns[:, 0]
    for column in columns.T[1:]:
        # Renumbered at every column: the product of all extents may not fit in 64 bits.
        _, keys = np.unique(keys, return_inverse=True)
        keys = keys * (int(column.max()) + 1) + column
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    return first, kind


def undominated(kind: IntArray, cost: FloatArray, memory: FloatArray) -> IntArray:
    """Those that no other of their kind undercuts in cost and memory both; of equals the first."""
    count = len(kind)
    order = np.lexsort((cost, memory, kind))
    _, rank = np.unique(cost, return_inverse=True)
    # A later kind's ranks all lie below an earlier one's, so the running minimum starts afresh.
    ranks = rank[order] - kind[order] * (count + 1)
    least_before = np.minimum.accumulate(ranks)[:-1]
    keeps = np.concatenate(([True], ranks[1:] < least_before))
    return np.sort(order[keeps])
