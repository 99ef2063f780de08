"""Pairs without pairs: one state of every node within the limit, by lists of partial choices.

Node by node, of two partial choices the one that costs and takes no less goes; so do those whose
cost with the least of the rest, under the dual's price of memory, is above what is of use. Equal
nodes, as repeats leave them, make lists that hardly grow; an integer program cannot tell their
choices apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.integer.dual import Dual
from meshwright_solver.search.integer.pairs import PairTable
from meshwright_solver.search.integer.reductions import NoChoice

_MOST_HELD = 20_000_000  # chosen: 500 MB of lists and of what they were made from
_ROUNDING = 1e-12  # chosen: sums may err by this share


@dataclass(frozen=True, slots=True)
class _KnapsackStage:
    """By partial choice: its place among those of the nodes before, and the node's state."""

    parent: IntArray
    state: IntArray


def cheapest(dual: Dual, upper_ns: float, deadline: Deadline) -> dict[int, int] | None:
    """The places of a cheapest choice within the limit and `upper_ns`.

    None where the lists grow too long, where nodes depend on each other or where memory counts at
    several moments. Raises NoChoice and OutOfTime.
    """
    pairs = dual.pairs
    if pairs.edges or pairs.moments > 1 or pairs.limit_bytes is None:
        return None
    fixed = [part for parts in pairs.constant_bytes.values() for part in parts]
    room = pairs.limit_bytes * (1 + pairs.memory_error) - sum(fixed)
    price = float(dual.prices[0])
    most = upper_ns - sum(pairs.constant_ns) + price * room
    most += _ROUNDING * (abs(upper_ns) + price * room)
    order = sorted(pairs.nodes)
    values = [(pairs.nodes[node].cost, _memory(pairs.nodes[node])) for node in order]
    least_memory = _after([memory.min() for _, memory in values])
    least_priced = _after([(cost + price * memory).min() for cost, memory in values])
    cost, memory = np.zeros(1), np.zeros(1)
    stages: list[_KnapsackStage] = []
    held = 0
    for k, (own_cost, own_memory) in enumerate(values):
        deadline.check()
        width = len(own_cost)
        if len(cost) * width > _MOST_HELD - held:
            return None
        cost = (cost[:, None] + own_cost).ravel()
        memory = (memory[:, None] + own_memory).ravel()
        of_use = memory + least_memory[k] <= room
        of_use &= cost + price * memory + least_priced[k] <= most
        kept = np.flatnonzero(of_use)
        kept = kept[np.lexsort((cost[kept], memory[kept]))]
        before = np.minimum.accumulate(np.append(np.inf, cost[kept]))[:-1]
        kept = kept[cost[kept] < before]
        if not kept.size:
            raise NoChoice
        cost, memory = cost[kept], memory[kept]
        stages.append(_KnapsackStage(kept // width, kept % width))
        held += 2 * len(kept)
    place = int(cost.argmin())
    found: dict[int, int] = {}
    for node, stage in zip(reversed(order), reversed(stages), strict=True):
        found[node] = int(stage.state[place])
        place = int(stage.parent[place])
    return found


def _memory(table: PairTable) -> FloatArray:
    total = np.zeros(len(table.cost))
    for array in table.memory.values():
        total = total + array
    return total


def _after(least: list[float]) -> FloatArray:
    """By node: the sum over those behind it."""
    return np.append(np.cumsum(least[::-1])[::-1][1:], 0.0)
