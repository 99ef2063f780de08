"""The best states of a block, the rest fixed: min-sum elimination along a BlockPlan."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from solver.cost_graph import FloatArray, IntArray
from solver.lagrangian.block_plan import BlockPlan
from solver.lagrangian.model import Model

StateArray = NDArray[np.int16]
FlagArray = NDArray[np.bool_]


@numba.njit(cache=True, nogil=True)
def solve_block(
    model: Model,
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
    """Writes the best states of plan.nodes under `unary` to `states`; False when stopped.

    held: the model's pair tables, then room for the messages. choices: as long as the messages.
    free: by node, whether the plan eliminates it. stop[0] != 0 ends it at the next step.
    """
    starts, tails, heads, tables = model.starts, model.tails, model.heads, model.tables
    base = tables[-1]
    count = plan.nodes.size
    value = np.zeros(0)
    sums = np.empty(16)
    digits = np.empty(64, np.int64)
    radix = np.empty(64, np.int64)
    at = np.empty(256, np.int64)
    for p in range(count):
        if stop[0] != 0:
            return False
        n = plan.nodes[p]
        own = starts[n]
        k = starts[n + 1] - own
        if k > sums.size:
            sums = np.empty(k)
            value = np.empty(k)
        if value.size < sums.size:
            value = np.empty(sums.size)
        for s in range(k):
            value[s] = unary[own + s]
        for i in range(first[n], first[n + 1]):
            e = edges[i]
            if tails[e] == n:
                o = heads[e]
                if not free[o]:
                    columns = starts[o + 1] - starts[o]
                    place = tables[e] + states[o]
                    for s in range(k):
                        value[s] += held[place + s * columns]
            else:
                o = tails[e]
                if not free[o]:
                    place = tables[e] + states[o] * k
                    for s in range(k):
                        value[s] += held[place + s]
        f0, f1 = plan.first_factor[p], plan.first_factor[p + 1]
        if f1 - f0 > at.size:
            at = np.empty(f1 - f0, np.int64)
        c0 = plan.first_scope[p]
        size = plan.first_scope[p + 1] - c0
        for d in range(size):
            o = plan.nodes[plan.scopes[c0 + d]]
            radix[d] = starts[o + 1] - starts[o]
            digits[d] = 0
        for f in range(f0, f1):
            at[f - f0] = plan.places[f]
        entries = plan.messages[p + 1] - plan.messages[p]
        out = base + plan.messages[p]
        for i in range(entries):
            if f1 - f0 == 1:
                a, sa = at[0], plan.own_strides[f0]
                least = value[0] + held[a]
                best = 0
                for s in range(1, k):
                    x = value[s] + held[a + s * sa]
                    if x < least:
                        least = x
                        best = s
            elif f1 - f0 == 2:
                a, sa = at[0], plan.own_strides[f0]
                b, sb = at[1], plan.own_strides[f0 + 1]
                least = value[0] + held[a] + held[b]
                best = 0
                for s in range(1, k):
                    x = value[s] + held[a + s * sa] + held[b + s * sb]
                    if x < least:
                        least = x
                        best = s
            else:
                for s in range(k):
                    sums[s] = value[s]
                for f in range(f0, f1):
                    a, sa = at[f - f0], plan.own_strides[f]
                    for s in range(k):
                        sums[s] += held[a + s * sa]
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
                    for f in range(f0, f1):
                        at[f - f0] += plan.strides[plan.scope_strides[f] + d]
                    break
                for f in range(f0, f1):
                    at[f - f0] -= (radix[d] - 1) * plan.strides[plan.scope_strides[f] + d]
                digits[d] = 0
                d -= 1
    for p in range(count - 1, -1, -1):
        place = 0
        for i in range(plan.first_scope[p], plan.first_scope[p + 1]):
            o = plan.nodes[plan.scopes[i]]
            place = place * (starts[o + 1] - starts[o]) + states[o]
        states[plan.nodes[p]] = choices[plan.messages[p] + place]
    return True
