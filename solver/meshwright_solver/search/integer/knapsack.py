"""The knapsack search for pairs without edges: one state of every node within the limit.

It extends lists of partial choices node by node. It drops a partial choice that costs and takes no
less than another. It also drops one whose cost with the least of the rest, under the dual's price
of memory, exceeds the useful cost. For equal nodes, which repeats leave, the lists hardly grow; an
integer program cannot tell their choices apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.integer.dual import Dual
from meshwright_solver.search.integer.pairs import PairTable
from meshwright_solver.search.integer.reductions import NoChoice

_MOST_HELD = 20_000_000  # chosen: 500 MB of lists and of their sources
_ROUNDING = 1e-12  # chosen: sums may err by this share


@dataclass(frozen=True, slots=True)
class _KnapsackStage:
    """By partial choice: the place of its parent in the stage before, and the node's state."""

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
    for k, (node_cost, node_memory) in enumerate(values):
        deadline.check()
        width = len(node_cost)
        if len(cost) * width > _MOST_HELD - held:
            return None
        cost = (cost[:, None] + node_cost).ravel()
        memory = (memory[:, None] + node_memory).ravel()
        of_use = memory + least_memory[k] <= room
        of_use &= cost + price * memory + least_priced[k] <= most
        survivors = np.flatnonzero(of_use)
        survivors = survivors[np.lexsort((cost[survivors], memory[survivors]))]
        before = np.minimum.accumulate(np.append(np.inf, cost[survivors]))[:-1]
        survivors = survivors[cost[survivors] < before]
        if not survivors.size:
            raise NoChoice
        cost, memory = cost[survivors], memory[survivors]
        stages.append(_KnapsackStage(survivors // width, survivors % width))
        held += 2 * len(survivors)
    place = int(cost.argmin())
    places: dict[int, int] = {}
    for node, stage in zip(reversed(order), reversed(stages), strict=True):
        places[node] = int(stage.state[place])
        place = int(stage.parent[place])
    return places


def _memory(table: PairTable) -> FloatArray:
    total = np.zeros(len(table.cost))
    for array in table.memory.values():
        total = total + array
    return total


def _after(least: list[float]) -> FloatArray:
    """The sum over the later nodes, by node."""
    return np.append(np.cumsum(least[::-1])[::-1][1:], 0.0)
