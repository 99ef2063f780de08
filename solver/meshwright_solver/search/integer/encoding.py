"""The integer program of pairs, in fixed point.

    x[n, s]     one literal for each state, exactly one for each node
    z[e, I, J]  one literal for each pair of classes of states that a pair's table tells apart;
                row I: the z[e, I, J] are x[a, I], column J: they are x[b, J]  (local consistency)
    memory      for each added moment, slack = limit - sum of memories >= 0
    objective   costs as the dual leaves them, all 0 or more, and its prices times the slacks

Costs are multiples of 1 / cost_scale, memories of 1 / memory_scale, powers of two. Memories are
rounded down, so that no choice within the limit is lost. Costs are rounded to the nearest multiple,
and bounds are corrected by the error (`error_ns`). Exact multiples are not rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model
from ortools.sat.python.cp_model_helper import Literal

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.integer.dual import Dual
from meshwright_solver.search.integer.pairs import Life, PairTable

_LARGEST = 2.0**60  # sums of an objective stay below 2^63, with room for what presolve adds
_FINEST = 2.0**40  # chosen: a scale no finer than 1e-12 of a ns or byte
_EPSILON = 2.0**-52

AnyInt = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Whole:
    """A table of whole numbers: the dual's reduced cost, -1 where forbidden; and the memories."""

    cost: AnyInt
    memory: dict[Life, AnyInt]


class Encoding:
    """A CP-SAT model; memory rows are added for the moments that matter."""

    def __init__(self, dual: Dual, upper_ns: float) -> None:
        self.dual = dual
        self.pairs = dual.pairs
        self.model = cp_model.CpModel()
        self.states: dict[int, list[Literal]] = {}
        self.moments: set[int] = set()
        self.literals = 0
        self._usage: dict[Life, list[tuple[Literal, int]]] = {}
        self._fixed_usage: dict[Life, int] = {}
        self._objective: list[tuple[Literal, int]] = []
        self._constant = 0
        self._rounded_terms = 0
        self._choose_scales(upper_ns)
        nodes, edges = self._whole_tables()
        for node, whole in nodes.items():
            self._add_node(node, whole)
        for (a, b), whole in edges.items():
            self._add_pair(a, b, whole)
        for moment in np.flatnonzero(dual.prices):
            self.add_row(int(moment))

    def bound_ns(self, objective: float) -> float:
        """The lower bound in ns that follows from a bound of the objective."""
        floor = math.floor(objective)
        if abs(floor) >= 2**53:
            floor -= abs(floor) >> 51
        whole = self._constant + floor
        value = whole / self.cost_scale
        rounded = 0.0 if abs(whole) < 2**53 else abs(value) * _EPSILON
        return value - self.error_ns - rounded

    @property
    def error_ns(self) -> float:
        return 0.5 * self._rounded_terms / self.cost_scale

    def _choose_scales(self, upper_ns: float) -> None:
        dual, pairs = self.dual, self.pairs
        largest = max(dual.largest(), abs(math.fsum(pairs.constant_ns)), 1e-300)
        room = upper_ns - dual.bound_ns
        sizes = sum(len(states) for states in pairs.states.values()) + pairs.entries()
        dearest = min(room if math.isfinite(room) else math.inf, largest) * sizes
        self.cost_scale = min(_FINEST, _power_below(_LARGEST / max(largest, dearest, 1e-300)))
        limit = pairs.limit_bytes or 0.0
        taken = sum(
            float(array.max())
            for table in (*pairs.nodes.values(), *pairs.edges.values())
            for array in table.memory.values()
        )
        self.memory_scale = min(_FINEST, _power_below(2.0**50 / max(limit, taken, 1e-300)))
        per_unit = dual.prices * (self.cost_scale / self.memory_scale)
        self._prices = [round(float(p)) for p in per_unit]
        # whole bytes need no finer scale
        arrays = [
            a for t in (*pairs.nodes.values(), *pairs.edges.values()) for a in t.memory.values()
        ]
        if all((np.rint(array) == array).all() for array in arrays):
            self.memory_scale = min(self.memory_scale, 1.0)
            per_unit = dual.prices * (self.cost_scale / self.memory_scale)
            self._prices = [round(float(p)) for p in per_unit]

    def _whole_tables(self) -> tuple[dict[int, _Whole], dict[tuple[int, int], _Whole]]:
        """The tables after the messages, with the least of every row and column in the nodes."""
        pairs, dual = self.pairs, self.dual
        nodes = {node: self._whole(table) for node, table in pairs.nodes.items()}
        edges = {}
        for (a, b), table in pairs.edges.items():
            whole = self._whole(table)
            forbidden = np.isinf(table.cost)
            cost = whole.cost
            for end, other, axis in ((a, b, 0), (b, a, 1)):
                message = self._fixed(dual.messages[end, other])
                nodes[end].cost[...] += message
                cost = cost - np.expand_dims(message, 1 - axis)
            top = np.int64(2**62)
            for end, axis in ((a, 0), (b, 1)):
                least = np.where(forbidden, top, cost).min(axis=1 - axis)
                nodes[end].cost[...] += least
                cost = cost - np.expand_dims(least, 1 - axis)
            for life, array in whole.memory.items():
                for end, axis in ((a, 0), (b, 1)):
                    part = array.min(axis=1 - axis)
                    array = array - np.expand_dims(part, 1 - axis)
                    node_memory = nodes[end].memory
                    node_memory[life] = node_memory[life] + part if life in node_memory else part
                whole.memory[life] = array
            memory = {life: array for life, array in whole.memory.items() if array.any()}
            edges[a, b] = _Whole(np.where(forbidden, -1, cost), memory)
        self._constant += sum(self._fixed_constant(part) for part in pairs.constant_ns)
        for life, parts in pairs.constant_bytes.items():
            taken = sum(math.floor(part * self.memory_scale) for part in parts)
            self._fixed_usage[life] = self._fixed_usage.get(life, 0) + taken
            self._constant += taken * self._price_of(life)
        return nodes, edges

    def _whole(self, table: PairTable) -> _Whole:
        cost = self._fixed(np.where(np.isinf(table.cost), 0.0, table.cost))
        if (cost / self.cost_scale != np.where(np.isinf(table.cost), 0.0, table.cost)).any():
            self._rounded_terms += 1
        memory: dict[Life, AnyInt] = {}
        for life, array in table.memory.items():
            memory[life] = np.floor(array * self.memory_scale).astype(np.int64)
            cost = cost + memory[life] * self._price_of(life)
        return _Whole(cost, memory)

    def _fixed(self, array: FloatArray) -> AnyInt:
        return np.asarray(np.rint(array * self.cost_scale).astype(np.int64))

    def _fixed_constant(self, part: float) -> int:
        whole = round(part * self.cost_scale)
        if whole / self.cost_scale != part:
            self._rounded_terms += 1
        return whole

    def _price_of(self, life: Life) -> int:
        return sum(self._prices[life[0] : life[1]])

    def _literal(self) -> cp_model.IntVar:
        self.literals += 1
        return self.model.new_bool_var("")

    def _add_node(self, node: int, whole: _Whole) -> None:
        count = len(whole.cost)
        literals: list[Literal]
        if count == 2:
            one = self._literal()
            literals = [one, ~one]
        else:
            literals = [self._literal() for _ in range(count)]
            self.model.add_exactly_one(literals)
        self.states[node] = literals
        self._take(literals, whole.cost, whole.memory)

    def _take(self, literals: Sequence[Literal], cost: AnyInt, memory: dict[Life, AnyInt]) -> None:
        """Count cost and memory of literals, of which exactly one is true."""
        least = int(cost.min())
        self._constant += least
        self._objective += [
            (literal, int(c) - least)
            for literal, c in zip(literals, cost, strict=True)
            if c > least
        ]
        for life, array in memory.items():
            low = int(array.min())
            self._fixed_usage[life] = self._fixed_usage.get(life, 0) + low
            usage = self._usage.setdefault(life, [])
            usage += [
                (lit, int(m) - low) for lit, m in zip(literals, array, strict=True) if m > low
            ]

    def _add_pair(self, a: int, b: int, whole: _Whole) -> None:
        rows = _classes([whole.cost, *whole.memory.values()])
        columns = _classes([whole.cost.T, *(array.T for array in whole.memory.values())])
        first = _firsts(rows)
        second = _firsts(columns)
        cost = whole.cost[np.ix_(first, second)]
        memory = {life: array[np.ix_(first, second)] for life, array in whole.memory.items()}
        row_literals = self._class_literals(self.states[a], rows)
        column_literals = self._class_literals(self.states[b], columns)
        allowed = cost >= 0
        if not cost[allowed].any() and not memory:
            self._support(row_literals, column_literals, allowed)
            self._support(column_literals, row_literals, allowed.T)
            return
        joint: dict[tuple[int, int], Literal] = {}
        for i, j in np.argwhere(allowed).tolist():
            if allowed[i].sum() == 1:
                joint[i, j] = row_literals[i]
            elif allowed[:, j].sum() == 1:
                joint[i, j] = column_literals[j]
            else:
                joint[i, j] = self._literal()
        for i, literal in enumerate(row_literals):
            self._is_sum(literal, [joint[i, j] for j in np.flatnonzero(allowed[i]).tolist()])
        for j, literal in enumerate(column_literals):
            self._is_sum(literal, [joint[i, j] for i in np.flatnonzero(allowed[:, j]).tolist()])
        places = list(joint)
        index = tuple(np.array(places).T)
        self._take(
            [joint[place] for place in places],
            cost[index],
            {life: array[index] for life, array in memory.items()},
        )

    def _class_literals(self, literals: list[Literal], classes: IntArray) -> list[Literal]:
        """A literal for each class of states."""
        class_literals: list[Literal] = []
        for number in range(int(classes.max()) + 1):
            members = [literals[place] for place in np.flatnonzero(classes == number).tolist()]
            if len(members) == 1:
                class_literals.append(members[0])
                continue
            literal = self._literal()
            self._is_sum(literal, members)
            class_literals.append(literal)
        return class_literals

    def _is_sum(self, literal: Literal, parts: list[Literal]) -> None:
        if len(parts) == 1:
            if parts[0] is not literal:
                self.model.add_implication(literal, parts[0])
                self.model.add_implication(parts[0], literal)
            return
        self.model.add_exactly_one([*parts, ~literal])

    def _support(
        self,
        row_literals: list[Literal],
        column_literals: list[Literal],
        allowed: NDArray[np.bool_],
    ) -> None:
        for i, literal in enumerate(row_literals):
            if not allowed[i].all():
                near = [column_literals[j] for j in np.flatnonzero(allowed[i]).tolist()]
                self.model.add_bool_or([*near, ~literal])

    def add_row(self, moment: int) -> None:
        """Limit the memory at this moment."""
        assert self.pairs.limit_bytes is not None
        self.moments.add(moment)
        limit = math.floor(self.pairs.limit_bytes * self.memory_scale * (1 + 4 * _EPSILON))
        terms: list[tuple[Literal, int]] = []
        for life, usage in self._usage.items():
            if life[0] <= moment < life[1]:
                terms += usage
        room = limit - sum(
            fixed for life, fixed in self._fixed_usage.items() if life[0] <= moment < life[1]
        )
        price = self._prices[moment]
        if room < 0:
            self.model.add_bool_or([])
            return
        taken = cp_model.LinearExpr.weighted_sum([t[0] for t in terms], [t[1] for t in terms])
        self._constant -= price * limit
        if price == 0:
            self.model.add(taken <= room)
            return
        slack = self.model.new_int_var(0, room, "")
        self.model.add(taken + slack == room)
        self._objective.append((slack, price))

    def exclude(self, places: dict[int, int]) -> None:
        """Exclude this choice from the solutions."""
        self.model.add_bool_or([~self.states[node][place] for node, place in places.items()])

    def minimise(self, upper_ns: float) -> None:
        objective = self._objective
        self.model.minimize(
            cp_model.LinearExpr.weighted_sum([o[0] for o in objective], [o[1] for o in objective])
        )
        if math.isfinite(upper_ns):
            most = math.ceil((upper_ns + self.error_ns) * self.cost_scale) + 1 - self._constant
            self.model.add(
                cp_model.LinearExpr.weighted_sum(
                    [o[0] for o in objective], [o[1] for o in objective]
                )
                <= max(most, -1)
            )

    def hint(self, places: dict[int, int]) -> None:
        for node, place in places.items():
            for other, literal in enumerate(self.states[node]):
                if isinstance(literal, cp_model.IntVar):
                    self.model.add_hint(literal, other == place)


def _classes(tables: Iterable[AnyInt]) -> IntArray:
    """The class of every row; rows that are equal in all tables share a class."""
    joined = np.ascontiguousarray(np.concatenate(list(tables), axis=1))
    numbers: dict[bytes, int] = {}
    return np.array(
        [numbers.setdefault(row.tobytes(), len(numbers)) for row in joined], dtype=np.int64
    )


def _firsts(classes: IntArray) -> IntArray:
    return np.asarray(np.unique(classes, return_index=True)[1])


def _power_below(number: float) -> float:
    return 2.0 ** (math.frexp(number)[1] - 1)
