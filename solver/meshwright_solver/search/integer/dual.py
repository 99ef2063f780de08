"""Lower bounds of pairs by messages (sequential reweighted message passing, TRW-S).

For a price p >= 0 of memory at each moment and messages m, one vector for each end of each pair,

    node n, state s           N = cost + price + sum of m over its pairs
    pair (a, b), states s, t  E = cost + price - m_a[s] - m_b[t]
    bound = sum over nodes of min N + sum over pairs of min E - sum of p * limit

is at most the least cost within the limit, whatever the messages. A sweep passes them along the
order of nodes and never lowers the bound.

Messages are multiples of a quantum. If costs are as well, all sums are exact; otherwise bounds are
reduced by the possible rounding error.
"""

from __future__ import annotations

import math

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.integer.pairs import Life, Pairs, PairTable

_ENOUGH = 1e-4  # chosen: sweeps end once they raise the bound by less than this share of the gap
_STEEPEST = 2.0**10  # chosen: the limit's price over all costs; leaves costs 42 of their 52 bits
_EPSILON = 2.0**-52


class Dual:
    """Messages over fixed pairs. prices: one for each moment."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.order = sorted(pairs.nodes)
        self.keys = sorted(pairs.edges)
        self.messages = {
            (node, other): np.zeros(len(pairs.states[node]))
            for a, b in self.keys
            for node, other in ((a, b), (b, a))
        }
        self.magnitude = _magnitude(pairs)
        self.quantum = 2.0 ** (math.frexp(self.magnitude)[1] - 50) if self.magnitude else 1.0
        self.bound_ns = -math.inf
        self.price(np.zeros(pairs.moments))

    def price(self, prices: FloatArray) -> None:
        """Set the prices. Prices too steep for the precision of costs are scaled down."""
        limit = self.pairs.limit_bytes or 0.0
        if float(prices.sum()) * limit > _STEEPEST * self.magnitude:
            prices = prices * (_STEEPEST * self.magnitude / (float(prices.sum()) * limit))
        self.prices = prices
        self.nodes = {node: self._priced(self.pairs.nodes[node]) for node in self.order}
        self.tables = {key: self._priced(self.pairs.edges[key]) for key in self.keys}
        # exact without prices, if all costs are multiples of the quantum
        arrays = [*self.nodes.values(), *self.tables.values()]
        known = {id(array): array for array in arrays}
        terms = len(arrays) + 2 * len(self.keys)
        exact = not prices.any() and all(self._is_whole(array) for array in known.values())
        self.error_ns = 0.0 if exact else 4 * _EPSILON * terms * self.largest()
        self.bound_ns = -math.inf

    def largest(self) -> float:
        """An upper bound of every partial sum under the prices."""
        limit = self.pairs.limit_bytes or 0.0
        return self.magnitude + float(self.prices.sum()) * limit

    def _is_whole(self, array: FloatArray) -> bool:
        finite = array[np.isfinite(array)]
        return bool((np.rint(finite / self.quantum) * self.quantum == finite).all())

    def _priced(self, table: PairTable) -> FloatArray:
        cost = table.cost
        for life, array in table.memory.items():
            if (price := self.price_of(life)) > 0:
                cost = cost + price * array
        return cost

    def price_of(self, life: Life) -> float:
        return float(self.prices[life[0] : life[1]].sum())

    def improve(self, sweeps: int, deadline: Deadline, upper_ns: float = math.inf) -> float:
        """The bound after at most `sweeps` sweeps there and back. Raises OutOfTime."""
        for _ in range(sweeps):
            deadline.check()
            self._sweep(self.order, 1)
            deadline.check()
            self._sweep(self.order[::-1], -1)
            before, self.bound_ns = self.bound_ns, max(self.bound_ns, self._bound())
            gap = upper_ns - self.bound_ns
            scale = gap if math.isfinite(gap) else abs(self.bound_ns)
            if self.bound_ns - before <= _ENOUGH * scale or gap <= 0:
                break
        return self.bound_ns

    def _sweep(self, order: list[int], direction: int) -> None:
        for node in order:
            around = sorted(self.pairs.around[node])
            total = self.nodes[node]
            for other in around:
                message = self._collected(node, other)
                self.messages[node, other] = message
                total = total + message
            after = [other for other in around if (other - node) * direction > 0]
            if not after:
                continue
            share = (total - total.min()) / max(len(after), len(around) - len(after))
            share = np.floor(share / self.quantum) * self.quantum
            for other in after:
                self.messages[node, other] = self.messages[node, other] - share

    def _collected(self, node: int, other: int) -> FloatArray:
        """The least of the pair without the other's message, by state of the node."""
        if node < other:
            least = (self.tables[node, other] - self.messages[other, node]).min(axis=1)
        else:
            least = (self.tables[other, node] - self.messages[other, node][:, None]).min(axis=0)
        return np.asarray(least)

    def node_rest(self, node: int) -> FloatArray:
        total = self.nodes[node]
        for other in sorted(self.pairs.around[node]):
            total = total + self.messages[node, other]
        return total

    def pair_rest(self, a: int, b: int) -> FloatArray:
        rest = self.tables[a, b] - self.messages[a, b][:, None] - self.messages[b, a]
        return np.asarray(rest)

    def _bound(self) -> float:
        parts = [float(self.node_rest(node).min()) for node in self.order]
        parts += [float((self._collected(a, b) - self.messages[a, b]).min()) for a, b in self.keys]
        return math.fsum([*parts, *self.constants()]) - self.error_ns

    def constants(self) -> list[float]:
        """The costs of eliminated parts, and the price of the limit."""
        constants = list(self.pairs.constant_ns)
        for life, parts in self.pairs.constant_bytes.items():
            constants += [self.price_of(life) * part for part in parts]
        if self.pairs.limit_bytes is not None and self.prices.any():
            constants.append(-float(self.prices.sum()) * self.pairs.limit_bytes)
        return constants

    def decoded(self) -> dict[int, int] | None:
        """A choice of places, node by node in order; None where it reaches a forbidden pair."""
        chosen: dict[int, int] = {}
        for node in self.order:
            total = self.nodes[node]
            for other in sorted(self.pairs.around[node]):
                if other < node:
                    total = total + self.tables[other, node][chosen[other]]
                else:
                    total = total + self._collected(node, other)
            chosen[node] = int(total.argmin())
            if total[chosen[node]] == math.inf:
                return None
        return chosen

    def improved(self, chosen: dict[int, int], rounds: int) -> dict[int, int]:
        """The choice after moves of single nodes, under the prices."""
        chosen = dict(chosen)
        for _ in range(rounds):
            changed = False
            for node in self.order:
                total = self.nodes[node]
                for other in sorted(self.pairs.around[node]):
                    if other < node:
                        total = total + self.tables[other, node][chosen[other]]
                    else:
                        total = total + self.tables[node, other][:, chosen[other]]
                best = int(total.argmin())
                if total[best] < total[chosen[node]]:
                    chosen[node] = best
                    changed = True
            if not changed:
                break
        return chosen

    def fix(self, upper_ns: float) -> bool:
        """Forbid states and pairs that only choices above `upper_ns` take; True if there are any.

        The star of a node, its pairs and their other ends, is bounded as a whole.
        """
        room = upper_ns - self._bound() + 2 * self.error_ns
        pairs = self.pairs
        if room < 0:
            room = 0.0
        rest = {node: self.node_rest(node) for node in self.order}
        excess = {node: values - values.min() for node, values in rest.items()}
        has_forbidden = False
        star: dict[int, FloatArray] = {}
        for node in self.order:
            star[node] = excess[node]
        for a, b in self.keys:
            pair = self.pair_rest(a, b)
            pair -= pair.min()
            star[a] = star[a] + (pair + excess[b]).min(axis=1)
            star[b] = star[b] + (pair + excess[a][:, None]).min(axis=0)
            over = pair + excess[a][:, None] + excess[b] > room
            table = pairs.edges[a, b]
            if (over & np.isfinite(table.cost)).any():
                pairs.edges[a, b] = PairTable(np.where(over, np.inf, table.cost), table.memory)
                has_forbidden = True
        for node in self.order:
            over = star[node] > room
            table = pairs.nodes[node]
            if (over & np.isfinite(table.cost)).any():
                pairs.nodes[node] = PairTable(np.where(over, np.inf, table.cost), table.memory)
                has_forbidden = True
        return has_forbidden


def _magnitude(pairs: Pairs) -> float:
    """An upper bound of every partial sum of costs."""
    total = 0.0
    known: dict[int, float] = {}
    for table in (*pairs.nodes.values(), *pairs.edges.values()):
        key = id(table.cost)
        if key not in known:
            finite = table.cost[np.isfinite(table.cost)]
            known[key] = float(np.abs(finite).max()) if finite.size else 0.0
        total += known[key]
    return total
