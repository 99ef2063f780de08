"""Block moves: large neighbourhood search that keeps the memory limit at every step.

A move chooses a block and finds its best states under a price of memory exactly (block_solver.py).
If they exceed the limit, the price rises at the moments of excess. The first states within the
limit are taken if they cost no more than before. While the choice itself exceeds the limit, less
excess comes first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit
from meshwright_solver.search.lagrangian.block_plan import BlockPlan, plan_block
from meshwright_solver.search.lagrangian.block_solver import FlagArray, StateArray, solve_block
from meshwright_solver.search.lagrangian.memory_profile import profile_of
from meshwright_solver.search.lagrangian.model import PairwiseModel

_SMALL = 100  # chosen: blocks of up to this size have any size up to it
_FORCED_SHARE = 0.2  # chosen: of moves that force a new state on the node in the middle
_LARGEST_FORCED = 1000  # chosen: largest block in which a state is forced
_FRONTIER = 8  # chosen: blocks are compact, and differ from move to move
_RISES = 14  # chosen: of the price, in one move
_RISE_GROWTH = 1.6  # chosen: 1.6^13 = 450


class BlockLimits(NamedTuple):
    """size: nodes of a block. most_entries: of a table. unit: the first rise of a price, in ns a
    byte. work: additions after which no further block begins. memory_limit: in bytes, or inf.
    """

    size: int
    most_entries: float
    unit: float
    work: float
    memory_limit: float


@njit(cache=True, nogil=True)
def improve(
    model: PairwiseModel,
    first: IntArray,
    edges: IntArray,
    held: FloatArray,
    choices: StateArray,
    prices: FloatArray,
    rules: BlockLimits,
    seed: int,
    states: IntArray,
    stop: IntArray,
) -> float:
    """Block moves on `states`, in place; returns the number of additions.

    held: held_tables() with room for messages, choices: as much room. prices: of a byte, by
    moment. stop[0] != 0 ends the moves soon.
    """
    np.random.seed(seed)
    starts = model.starts
    nodes = starts.size - 1
    moments = model.base.size
    limit = rules.memory_limit
    profile = profile_of(model, states)
    inside = np.zeros(nodes, np.bool_)
    free = np.zeros(nodes, np.bool_)
    members = np.empty(nodes, np.int64)
    priced = np.zeros(starts[nodes])
    rest = np.zeros(moments)
    block_bytes = np.zeros(moments)
    block_prices = np.zeros(moments)
    trial = np.empty(nodes, np.int64)
    for n in range(nodes):
        trial[n] = states[n]
    work = 0.0
    while work < rules.work and stop[0] == 0:
        size = rules.size
        if size <= _SMALL:
            size = 1 + int(np.random.random() * size)
        count = _grow(model, first, edges, size, inside, members)
        block = np.empty(count, np.int64)
        for j in range(count):
            block[j] = members[j]
        forces = 1 < count <= _LARGEST_FORCED and np.random.random() < _FORCED_SHARE
        movable = np.empty(count - 1 if forces else count, np.int64)
        for j in range(movable.size):
            movable[j] = block[count - movable.size + j]
        weights = _drawn_weights(first, movable, forces)
        plan = plan_block(model, first, edges, movable, weights, rules.most_entries)
        again = plan
        once = _additions(model, plan)
        if forces:
            weights = _drawn_weights(first, movable, forces)
            again = plan_block(model, first, edges, movable, weights, rules.most_entries)
            once += _additions(model, again)
        work += 2000.0 + 500.0 * count
        fits_room = max(plan.messages[-1], again.messages[-1]) <= choices.size
        _block_memory(model, block, states, block_bytes)
        excess = 0.0
        for m in range(moments):
            rest[m] = profile[m] - block_bytes[m]
            excess += max(profile[m] - limit, 0.0)
        before = _block_cost(model, held, first, edges, block, inside, states)
        scale = _drawn_scale()
        for m in range(moments):
            block_prices[m] = scale * prices[m] * (0.7 + 0.6 * np.random.random())
        if forces:
            n = block[0]
            trial[n] = int(np.random.random() * (starts[n + 1] - starts[n]))
        # equal nodes must not all move at the same price
        spread = 0.1 * np.random.random() ** 4
        shares = np.empty(count)
        for j in range(count):
            shares[j] = 1.0 + spread * (np.random.random() - 0.5)
        rise = rules.unit
        for _ in range(_RISES if fits_room else 0):
            _add_block_prices(model, block, shares, block_prices, priced)
            work += once
            solved = _solve(model, priced, first, edges, plan, held, choices, free, trial, stop)
            if solved and forces:
                solved = _solve(
                    model, priced, first, edges, again, held, choices, free, trial, stop
                )
            if not solved:
                break
            _block_memory(model, block, trial, block_bytes)
            new_excess = _raise_prices(rest, block_bytes, limit, rise, block_prices)
            after = _block_cost(model, held, first, edges, block, inside, trial)
            if new_excess < excess or (new_excess == excess and after <= before):
                for m in range(moments):
                    profile[m] = rest[m] + block_bytes[m]
                for j in range(count):
                    states[block[j]] = trial[block[j]]
                before = after
                excess = new_excess
                if excess == 0.0:
                    break
            elif excess == 0.0 and after > before:
                # a higher price makes the block dearer still
                break
            rise *= _RISE_GROWTH
        for j in range(count):
            n = block[j]
            trial[n] = states[n]
            inside[n] = False
    return work


@njit(cache=True, nogil=True)
def _drawn_weights(first: IntArray, block: IntArray, forces: bool) -> FloatArray:
    """The order in which nodes are fixed: by degree in some blocks, at random or against the degree
    in others. The first node, at the center of the block, is free unless its state is forced.
    """
    weights = np.empty(block.size)
    power = int(np.random.random() * 3)
    for j in range(block.size):
        degree = first[block[j] + 1] - first[block[j]]
        weights[j] = np.exp(-6.0 * np.random.random())
        for _ in range(power):
            weights[j] /= max(degree, 1)
    if not forces:
        weights[0] = 1e-9
    return weights


@njit(cache=True, nogil=True)
def _solve(
    model: PairwiseModel,
    priced: FloatArray,
    first: IntArray,
    edges: IntArray,
    plan: BlockPlan,
    held: FloatArray,
    choices: StateArray,
    free: FlagArray,
    trial: IntArray,
    stop: IntArray,
) -> bool:
    for p in range(plan.nodes.size):
        free[plan.nodes[p]] = True
    solved = solve_block(model, priced, first, edges, plan, held, choices, free, trial, stop)
    for p in range(plan.nodes.size):
        free[plan.nodes[p]] = False
    return solved


@njit(cache=True, nogil=True)
def _drawn_scale() -> float:
    """The factor of the prices in a move: from 0, for spare memory, to more than 1."""
    x = np.random.random()
    if x < 0.25:
        return 0.0
    if x < 0.5:
        return 0.3
    return 1.0 if x < 0.75 else 1.3


@njit(cache=True, nogil=True)
def _grow(
    model: PairwiseModel,
    first: IntArray,
    edges: IntArray,
    size: int,
    inside: FlagArray,
    block: IntArray,
) -> int:
    """Collect nodes around a few random ones, in random breadth-first order; their number."""
    starts = model.starts
    nodes = starts.size - 1
    count = 0
    head = 0
    while count < size:
        if head == count:
            # the end of an edge: hubs, on which most nodes depend, come more often
            n = int(np.random.random() * nodes)
            if count == 0 and model.tails.size > 0 and np.random.random() < 0.5:
                e = int(np.random.random() * model.tails.size)
                n = model.tails[e] if np.random.random() < 0.5 else model.heads[e]
            tries = 0
            while tries < nodes and (inside[n] or starts[n + 1] - starts[n] == 1):
                n = (n + 1) % nodes
                tries += 1
            if tries == nodes:
                break
            inside[n] = True
            block[count] = n
            count += 1
            continue
        pick = head + int(np.random.random() * min(count - head, _FRONTIER))
        n = block[pick]
        block[pick] = block[head]
        block[head] = n
        head += 1
        degree = first[n + 1] - first[n]
        offset = int(np.random.random() * degree)
        for i in range(min(degree, size // 2 + 1)):
            e = edges[first[n] + (i + offset) % degree]
            o = model.heads[e] if model.tails[e] == n else model.tails[e]
            if not inside[o] and count < size:
                inside[o] = True
                block[count] = o
                count += 1
    return count


@njit(cache=True, nogil=True)
def _additions(model: PairwiseModel, plan: BlockPlan) -> float:
    total = 0.0
    for p in range(plan.nodes.size):
        n = plan.nodes[p]
        entries = plan.messages[p + 1] - plan.messages[p]
        factors = plan.first_factor[p + 1] - plan.first_factor[p]
        total += (model.starts[n + 1] - model.starts[n]) * entries * (1.0 + factors) + 50.0
    return total


@njit(cache=True, nogil=True)
def _block_memory(model: PairwiseModel, nodes: IntArray, states: IntArray, out: FloatArray) -> None:
    """The memory of these nodes, by moment."""
    for m in range(out.size):
        out[m] = 0.0
    for p in range(nodes.size):
        n = nodes[p]
        for j in range(model.first_term[n], model.first_term[n + 1]):
            x = model.usage[model.usages[j] + states[n]]
            out[model.since[j]] += x
            if model.until[j] < out.size:
                out[model.until[j]] -= x
    for m in range(1, out.size):
        out[m] += out[m - 1]


@njit(cache=True, nogil=True)
def _raise_prices(
    rest: FloatArray, own: FloatArray, limit: float, rise: float, prices: FloatArray
) -> float:
    """Raise the price at the worst moment of every stretch above the limit; the total excess."""
    excess = 0.0
    worst = 0.0
    at_worst = 0
    for m in range(rest.size):
        over = rest[m] + own[m] - limit
        if over > worst:
            worst = over
            at_worst = m
        excess += max(over, 0.0)
        if worst > 0.0 and (over <= 0.0 or m == rest.size - 1):
            prices[at_worst] += rise
            worst = 0.0
    return excess


@njit(cache=True, nogil=True)
def _add_block_prices(
    model: PairwiseModel,
    nodes: IntArray,
    shares: FloatArray,
    prices: FloatArray,
    priced: FloatArray,
) -> None:
    """Unary costs of these nodes, with their shares of the price of their memory."""
    upto = np.zeros(prices.size + 1)
    for m in range(prices.size):
        upto[m + 1] = upto[m] + prices[m]
    for p in range(nodes.size):
        n = nodes[p]
        at = model.starts[n]
        k = model.starts[n + 1] - at
        for s in range(k):
            priced[at + s] = model.unary[at + s]
        for j in range(model.first_term[n], model.first_term[n + 1]):
            price = shares[p] * (upto[model.until[j]] - upto[model.since[j]])
            if price != 0.0:
                for s in range(k):
                    priced[at + s] += price * model.usage[model.usages[j] + s]


@njit(cache=True, nogil=True)
def _block_cost(
    model: PairwiseModel,
    pair: FloatArray,
    first: IntArray,
    edges: IntArray,
    nodes: IntArray,
    free: FlagArray,
    states: IntArray,
) -> float:
    """The cost that depends on the states of `nodes`; an edge inside counts at its tail."""
    total = 0.0
    for p in range(nodes.size):
        n = nodes[p]
        total += model.unary[model.starts[n] + states[n]]
        for i in range(first[n], first[n + 1]):
            e = edges[i]
            h = model.heads[e]
            if model.tails[e] == n or not free[model.tails[e]]:
                columns = model.starts[h + 1] - model.starts[h]
                total += pair[model.tables[e] + states[model.tails[e]] * columns + states[h]]
    return total
