"""One pass of direct elimination, compiled.

    table of a step [its neighbours] = min over its node's states of the sum of its tables

The first step that eliminates a node of a table takes that table. The tables of the steps are
contiguous, row by row in the order of the step's scope, with the states that attain the minimum
beside them. Read backwards, these states are a best choice. Nodes of a single state are axes of no
table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.search.elimination.greedy_order_kernel import EliminationOrder

Ints = NDArray[np.int32]

_NONE = -1


@dataclass(frozen=True, slots=True)
class Factors:
    """The graph's own tables: tail x head, or only tail where the head is -1.

    places: where each begins in the array of numbers. times: how often it counts.
    """

    tails: IntArray
    heads: IntArray
    places: IntArray
    times: FloatArray


def least_of(
    extents: IntArray, order: EliminationOrder, factors: Factors, numbers: FloatArray
) -> tuple[float, IntArray]:
    """The least sum and its states; the first state wins where states tie."""
    steps = (order.nodes, order.start, order.scope, order.entries)
    tables = (factors.tails, factors.heads, factors.places, factors.times)
    return _compiled_pass(extents, steps, tables, numbers)


@njit(nogil=True)
def _lists(
    extents: IntArray, step_of: IntArray, tails: IntArray, heads: IntArray
) -> tuple[IntArray, IntArray]:
    """The graph's tables by step, as linked lists; with room for the tables of steps."""
    count, graph_tables = len(step_of), len(tails)
    first = np.full(count, _NONE, dtype=np.int64)
    following = np.full(graph_tables + count, _NONE, dtype=np.int64)
    for factor in range(graph_tables - 1, -1, -1):
        tail, head = tails[factor], heads[factor]
        step = step_of[tail]
        if head != _NONE and extents[head] > 1 and (extents[tail] == 1 or step_of[head] < step):
            step = step_of[head]
        following[factor] = first[step]
        first[step] = factor
    return first, following


@njit(nogil=True)
def _set_stride(strides: IntArray, around: IntArray, node: int, axis_of: int, stride: int) -> None:
    """Set the stride of a node's axis. Axes of a step: its neighbours, then its node."""
    if axis_of == node:
        strides[len(around)] = stride
        return
    for axis in range(len(around)):
        if around[axis] == axis_of:
            strides[axis] = stride
            return


@njit(nogil=True)
def _next_entry(
    digits: IntArray, around: IntArray, extents: IntArray, strides: IntArray, offsets: IntArray
) -> None:
    """Advance to the next row of the neighbours' states, in all tables."""
    for axis in range(len(around) - 1, -1, -1):
        extent = extents[around[axis]]
        digits[axis] += 1
        if digits[axis] < extent:
            for k in range(len(offsets)):
                offsets[k] += strides[k, axis]
            return
        digits[axis] = 0
        for k in range(len(offsets)):
            offsets[k] -= (extent - 1) * strides[k, axis]


@njit(nogil=True)
def _states(
    steps: tuple[IntArray, IntArray, IntArray, IntArray],
    extents: IntArray,
    places: IntArray,
    best: Ints,
) -> IntArray:
    nodes, start, scope, _ = steps
    states = np.zeros(len(nodes), dtype=np.int64)
    for step in range(len(nodes) - 1, -1, -1):
        entry = 0
        for place in range(start[step], start[step + 1]):
            entry = entry * extents[scope[place]] + states[scope[place]]
        states[nodes[step]] = best[places[step] + entry]
    return states


def _pass(
    extents: IntArray,
    steps: tuple[IntArray, IntArray, IntArray, IntArray],
    factors: tuple[IntArray, IntArray, IntArray, FloatArray],
    numbers: FloatArray,
) -> tuple[float, IntArray]:
    nodes, start, scope, entries = steps
    tails, heads, at, times = factors
    count, graph_tables = len(nodes), len(tails)
    step_of = np.empty(count, dtype=np.int64)
    for step in range(count):
        step_of[nodes[step]] = step
    first, following = _lists(extents, step_of, tails, heads)
    places = np.zeros(count + 1, dtype=np.int64)
    longest = widest = 0
    for step in range(count):
        places[step + 1] = places[step] + entries[step]
        longest = max(longest, start[step + 1] - start[step])
        widest = max(widest, extents[step])
    tables = np.empty(places[count])
    best = np.empty(places[count], dtype=np.int32)
    digits = np.empty(longest, dtype=np.int64)
    sums = np.empty(widest)
    value = 0.0
    for step in range(count):
        node = nodes[step]
        extent = extents[node]
        around = scope[start[step] : start[step + 1]]
        axes = len(around)
        held = 0
        factor = first[step]
        while factor != _NONE:
            held += 1
            factor = following[factor]
        strides = np.zeros((held, axes + 1), dtype=np.int64)
        offsets = np.empty(held, dtype=np.int64)
        taken = np.empty(held, dtype=np.int64)
        factor = first[step]
        for k in range(held):
            taken[k] = factor
            if factor < graph_tables:
                offsets[k] = at[factor]
                head = heads[factor]
                width = 1 if head == _NONE else extents[head]
                _set_stride(strides[k], around, node, tails[factor], width)
                _set_stride(strides[k], around, node, head, 1)
            else:
                done = factor - graph_tables
                offsets[k] = places[done]
                width = 1
                for place in range(start[done + 1] - 1, start[done] - 1, -1):
                    _set_stride(strides[k], around, node, scope[place], width)
                    width *= extents[scope[place]]
            factor = following[factor]
        digits[:axes] = 0
        for entry in range(places[step], places[step + 1]):
            sums[:extent] = 0.0
            for k in range(held):
                stride, offset = strides[k, axes], offsets[k]
                if taken[k] < graph_tables:
                    weight = times[taken[k]]
                    for state in range(extent):
                        sums[state] += weight * numbers[offset + state * stride]
                else:
                    for state in range(extent):
                        sums[state] += tables[offset + state * stride]
            least = 0
            for state in range(1, extent):
                if sums[state] < sums[least]:
                    least = state
            tables[entry] = sums[least]
            best[entry] = least
            _next_entry(digits[:axes], around, extents, strides, offsets)
        if axes == 0:
            value += tables[places[step]]
            continue
        reader = step_of[around[0]]
        for other in around:
            reader = min(reader, step_of[other])
        following[graph_tables + step] = first[reader]
        first[reader] = graph_tables + step
    return value, _states(steps, extents, places, best)


_compiled_pass = cast(
    Callable[
        [
            IntArray,
            tuple[IntArray, IntArray, IntArray, IntArray],
            tuple[IntArray, IntArray, IntArray, FloatArray],
            FloatArray,
        ],
        tuple[float, IntArray],
    ],
    njit(cache=True, nogil=True)(_pass),
)
