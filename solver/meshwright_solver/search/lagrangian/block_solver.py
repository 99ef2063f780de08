"""The best states of a block, the rest fixed: min-sum elimination along a BlockPlan."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.search.lagrangian.block_plan import BlockPlan
from meshwright_solver.search.lagrangian.model import PairwiseModel

StateArray = NDArray[np.int16]
FlagArray = NDArray[np.bool_]


@njit(cache=True, nogil=True)
def solve_block(
    model: PairwiseModel,
    unary: FloatArray,
    first: IntArray,
    edges: IntArray,
    plan: BlockPlan,
    held: FloatArray,
    choices: StateArray,
    free: FlagArray,
    states: IntArray,
    stop: IntArray,
) -> bool:
    """Write the best states of plan.nodes under `unary` to `states`; False if stopped.

    held: held_tables(). choices: room for as many entries as the messages have. free: by node,
    whether the plan eliminates it. stop[0] != 0 stops it at the next step.
    """
    starts, tails, heads, tables = model.starts, model.tails, model.heads, model.tables
    base = 2 * tables[-1]
    count = plan.nodes.size
    widest = 1
    most_factors = 1
    for p in range(count):
        n = plan.nodes[p]
        widest = max(widest, starts[n + 1] - starts[n])
        most_factors = max(most_factors, plan.first_factor[p + 1] - plan.first_factor[p])
    value = np.empty(widest)
    sums = np.empty(widest)
    digits = np.empty(64, np.int64)
    radix = np.empty(64, np.int64)
    at = np.empty(most_factors, np.int64)
    for p in range(count):
        if stop[0] != 0:
            return False
        n = plan.nodes[p]
        k = starts[n + 1] - starts[n]
        node_costs = unary[starts[n] : starts[n + 1]]
        for s in range(k):
            value[s] = node_costs[s]
        for i in range(first[n], first[n + 1]):
            e = edges[i]
            is_tail = tails[e] == n
            o = heads[e] if is_tail else tails[e]
            if not free[o]:
                place = tables[e] + states[o] * k + (tables[-1] if is_tail else 0)
                row = held[place : place + k]
                for s in range(k):
                    value[s] += row[s]
        f0 = plan.first_factor[p]
        factors = plan.first_factor[p + 1] - f0
        c0 = plan.first_scope[p]
        size = plan.first_scope[p + 1] - c0
        for d in range(size):
            o = plan.nodes[plan.scopes[c0 + d]]
            radix[d] = starts[o + 1] - starts[o]
            digits[d] = 0
        for f in range(factors):
            at[f] = plan.places[f0 + f]
        entries = plan.messages[p + 1] - plan.messages[p]
        out = base + plan.messages[p]
        for i in range(entries):
            if factors == 1:
                row = held[at[0] : at[0] + k]
                for s in range(k):
                    sums[s] = value[s] + row[s]
            elif factors == 2:
                row = held[at[0] : at[0] + k]
                other = held[at[1] : at[1] + k]
                for s in range(k):
                    sums[s] = value[s] + row[s] + other[s]
            else:
                for s in range(k):
                    sums[s] = value[s]
                for f in range(factors):
                    row = held[at[f] : at[f] + k]
                    for s in range(k):
                        sums[s] += row[s]
            least = sums[0]
            best = 0
            for s in range(1, k):
                if sums[s] < least:
                    least = sums[s]
                    best = s
            held[out + i] = least
            choices[plan.messages[p] + i] = best
            d = size - 1
            while d >= 0:
                digits[d] += 1
                if digits[d] < radix[d]:
                    for f in range(factors):
                        at[f] += plan.strides[plan.scope_strides[f0 + f] + d]
                    break
                for f in range(factors):
                    at[f] -= (radix[d] - 1) * plan.strides[plan.scope_strides[f0 + f] + d]
                digits[d] = 0
                d -= 1
    for p in range(count - 1, -1, -1):
        place = 0
        for i in range(plan.first_scope[p], plan.first_scope[p + 1]):
            o = plan.nodes[plan.scopes[i]]
            place = place * (starts[o + 1] - starts[o]) + states[o]
        states[plan.nodes[p]] = choices[plan.messages[p] + place]
    return True


def held_tables(model: PairwiseModel, room: int) -> FloatArray:
    """The pair tables, their transposes, and `room` entries for messages."""
    size = len(model.pair)
    held = np.empty(2 * size + room)
    held[:size] = model.pair
    _transpose(model, held)
    return held


@njit(cache=True, nogil=True)
def _transpose(model: PairwiseModel, held: FloatArray) -> None:
    for e in range(model.tails.size):
        a, b = model.tails[e], model.heads[e]
        rows = model.starts[a + 1] - model.starts[a]
        columns = model.starts[b + 1] - model.starts[b]
        to = model.tables[e] + model.tables[-1]
        for s in range(rows):
            for t in range(columns):
                held[to + t * rows + s] = model.pair[model.tables[e] + s * columns + t]
