"""Reductions, which make pairs smaller and keep the least cost within the limit.

forbidden     states that cost FORBIDDEN, or whose every pair with a neighbour does
too dear      states and pairs that with the least of all others cost more than is of use
too large     states and pairs that with the least of all others exceed the limit
separable     a pair that is a sum of two node tables
dominated     a state for which another costs and takes no more whatever the neighbours do
eliminated    a node of at most two neighbours, where for all of their states one of its own is
              both cheapest and smallest; a node that another decides is always of this kind
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.integer.pairs import EliminatedNode, Life, Pairs, PairTable, added

_CUBE_ENTRIES = 500_000  # chosen: milliseconds a node; larger ones wait until states are forbidden
_ROUNDING = 1e-12  # chosen: sums of costs may err by this share


class NoChoice(Exception):
    """Proved: every choice is forbidden, takes more memory than the limit or costs too much."""


def reduce(pairs: Pairs, deadline: Deadline, upper_ns: float = math.inf) -> None:
    """Apply all reductions until none applies; choices above `upper_ns` may be lost.

    Raises NoChoice and OutOfTime.
    """
    todo = set(pairs.nodes)
    while todo:
        todo |= _consistent(pairs, _arcs(pairs, todo), deadline)
        todo |= _affordable(pairs, upper_ns, deadline)
        todo |= _fitting(pairs, deadline)
        again: set[int] = set()
        for node in sorted(todo):
            if node not in pairs.nodes:
                continue
            deadline.check()
            around = sorted(pairs.around[node])
            changed = _dominance(pairs, node) | _separable(pairs, node)
            near = sorted(pairs.around[node])
            if _eliminate(pairs, node):
                again.update(around, _consistent(pairs, _between(pairs, near), deadline))
            elif changed:
                again.update(around, [node])
        todo = {node for node in again if node in pairs.nodes}


Arc = tuple[int, int]
"""A node whose states are checked, and the neighbour that has to support them; or the node twice,
where its own costs are checked."""


def _arcs(pairs: Pairs, nodes: Iterable[int]) -> list[Arc]:
    return [
        (node, other)
        for node in sorted(nodes)
        if node in pairs.nodes
        for other in (node, *sorted(pairs.around[node]))
    ]


def _between(pairs: Pairs, nodes: Sequence[int]) -> list[Arc]:
    """The arcs that an elimination affects: its neighbours' costs, and the pair of them."""
    pair = [(a, b) for a in nodes for b in nodes if b in pairs.around[a]]
    return [*((node, node) for node in nodes), *pair]


def _consistent(pairs: Pairs, arcs: Sequence[Arc], deadline: Deadline) -> set[int]:
    """Remove forbidden states (arc consistency, AC-3); the nodes that lost any, and their
    neighbours.

    The first arc that does not support a state removes it. Only arcs towards its node are checked
    again. Raises NoChoice and OutOfTime.
    """
    changed: set[int] = set()
    work = list(reversed(arcs))
    waiting = set(work)
    while work:
        deadline.check()
        arc = work.pop()
        waiting.discard(arc)
        node, other = arc
        if node == other:
            is_supported = np.isfinite(pairs.nodes[node].cost)
        else:
            edge = pairs.edge(node, other)
            is_supported = pairs.memo.get(("any",), [edge], lambda edge=edge: _supported(edge))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        if is_supported.all():
            continue
        if not is_supported.any():
            raise NoChoice
        pairs.keep(node, is_supported)
        changed |= {node, *pairs.around[node]}
        for far in sorted(pairs.around[node]):
            if (far, node) not in waiting:
                work.append((far, node))
                waiting.add((far, node))
    return changed


def _supported(edge: PairTable) -> NDArray[np.bool_]:
    return np.asarray(np.isfinite(edge.cost).any(axis=1))


def _affordable(pairs: Pairs, upper_ns: float, deadline: Deadline) -> set[int]:
    """Remove states and pairs that only choices above `upper_ns` take; the nodes concerned."""
    if upper_ns == math.inf:
        return set()
    room = upper_ns - pairs.least_ns()
    room += _ROUNDING * (abs(upper_ns) + abs(pairs.least_ns()))
    changed: set[int] = set()
    for node, table in list(pairs.nodes.items()):
        if _is_over(table.cost, room):
            over = table.cost - table.cost.min() > room
            pairs.nodes[node] = PairTable(np.where(over, np.inf, table.cost), table.memory)
            changed.add(node)
    for pair, table in list(pairs.edges.items()):
        if _is_over(table.cost, room):
            over = table.cost - table.cost.min() > room
            pairs.edges[pair] = PairTable(np.where(over, np.inf, table.cost), table.memory)
            changed.update(pair)
    return changed | _consistent(pairs, _arcs(pairs, changed), deadline)


def _is_over(cost: FloatArray, room: float) -> bool:
    """Whether a finite cost lies more than `room` above the least."""
    return bool(((cost - cost.min() > room) & np.isfinite(cost)).any())


def _fitting(pairs: Pairs, deadline: Deadline) -> set[int]:
    """Remove states and pairs that no choice within the limit takes; the nodes concerned."""
    limit = pairs.limit_bytes
    if limit is None:
        return set()
    lives = sorted(
        {life for t in (*pairs.nodes.values(), *pairs.edges.values()) for life in t.memory}
        | pairs.constant_bytes.keys()
    )
    least = np.zeros(pairs.moments)
    for life, constants in pairs.constant_bytes.items():
        least[life[0] : life[1]] += sum(constants)
    for table in (*pairs.nodes.values(), *pairs.edges.values()):
        for life, array in table.memory.items():
            least[life[0] : life[1]] += array.min()
    room = limit * (1 + pairs.memory_error) - least
    if room.min() < 0:
        raise NoChoice
    room_by_life = {
        life: float(room[life[0] : life[1]].min()) for life in lives if life[0] < life[1]
    }
    changed: set[int] = set()
    for node, table in list(pairs.nodes.items()):
        cost = _without_excess(table, room_by_life)
        if cost is not None:
            pairs.nodes[node] = PairTable(cost, table.memory)
            changed.add(node)
    for pair, table in list(pairs.edges.items()):
        cost = _without_excess(table, room_by_life)
        if cost is not None:
            pairs.edges[pair] = PairTable(cost, table.memory)
            changed.update(pair)
    return changed | _consistent(pairs, _arcs(pairs, changed), deadline)


def _without_excess(table: PairTable, room_by_life: dict[Life, float]) -> FloatArray | None:
    """The costs, FORBIDDEN where memory exceeds its room; None where it never does."""
    over = np.zeros(table.cost.shape, dtype=np.bool_)
    for life, array in table.memory.items():
        over |= array - array.min() > room_by_life[life]
    if not (over & np.isfinite(table.cost)).any():
        return None
    return np.where(over, np.inf, table.cost)


def _separable(pairs: Pairs, node: int) -> bool:
    is_changed = False
    for other in sorted(pairs.around[node]):
        edge = pairs.edge(node, other)
        parts = pairs.memo.get(("separable",), [edge], lambda edge=edge: _parts(edge))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        if parts is None:
            continue
        pairs.remove_edge(node, other)
        for end, part in zip((node, other), parts, strict=True):
            terms = (pairs.nodes[end], part)
            pairs.nodes[end] = pairs.memo.get(("sum",), terms, lambda terms=terms: added(*terms))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        is_changed = True
    return is_changed


def _parts(edge: PairTable) -> tuple[PairTable, PairTable] | None:
    if not np.isfinite(edge.cost).all():
        return None
    arrays: list[tuple[Life | None, FloatArray]] = [(None, edge.cost), *edge.memory.items()]
    rows: dict[Life | None, FloatArray] = {}
    columns: dict[Life | None, FloatArray] = {}
    for life, array in arrays:
        rows[life] = array[:, 0] if array.shape[1] == 1 else array.min(axis=1)
        columns[life] = array[0] - rows[life][0]
        if len(array) == 1:  # without rounding
            rows[life], columns[life] = np.zeros(1), array[0]
        if (rows[life][:, None] + columns[life] != array).any():
            return None
    return _table_of(rows), _table_of(columns)


def _table_of(arrays: dict[Life | None, FloatArray]) -> PairTable:
    memory = {life: array for life, array in arrays.items() if life is not None and array.any()}
    return PairTable(arrays[None], memory)


def _dominance(pairs: Pairs, node: int) -> bool:
    table = pairs.nodes[node]
    count = len(table.cost)
    around = sorted(pairs.around[node])
    edges = [pairs.edge(node, other) for other in around]
    widest = max((edge.cost.shape[1] for edge in edges), default=1)
    if count == 1 or count * count * widest > _CUBE_ENTRIES:
        return False
    gains = [
        pairs.memo.get(("gain",), [edge], lambda edge=edge: _least_gain(edge))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        for edge in edges
    ]
    gains.append(_least_gain(PairTable(table.cost[:, None], _as_columns(table))))
    total: dict[Life | None, FloatArray] = {}
    for gain in gains:
        for life, array in gain.items():
            total[life] = total[life] + array if life in total else array
    better = np.logical_and.reduce([array >= 0 for array in total.values()])
    earlier = np.tri(count, k=-1, dtype=np.bool_)
    dominated = (better & (~better.T | earlier)).any(axis=1)
    if not dominated.any():
        return False
    pairs.keep(node, ~dominated)
    return True


def _as_columns(table: PairTable) -> dict[Life, FloatArray]:
    return {life: array[:, None] for life, array in table.memory.items()}


def _least_gain(edge: PairTable) -> dict[Life | None, FloatArray]:
    """[a, b]: the least saving of b over a, in cost (None) and memory, over what a may meet."""
    count, width = edge.cost.shape
    gains: dict[Life | None, FloatArray] = {}
    for life, array in [(None, edge.cost), *edge.memory.items()]:
        least = np.full((count, count), np.inf)
        for column in range(width):
            met = np.isfinite(edge.cost[:, column])
            values = array[:, column]
            gain = np.where(met, values, 0.0)[:, None] - values[None, :]
            least = np.where(met[:, None], np.minimum(least, gain), least)
        gains[life] = least
    return gains


def _eliminate(pairs: Pairs, node: int) -> bool:
    around = tuple(sorted(pairs.around[node]))
    if len(around) > 2:
        return False
    edges = [pairs.edge(node, other) for other in around]
    shape = [edge.cost.shape[1] for edge in edges]
    if len(around) == 2:
        grown = int(np.prod(shape))
        if grown * len(pairs.nodes[node].cost) > _CUBE_ENTRIES:
            return False
        replaced = sum(edge.cost.size for edge in edges)
        known = around[1] in pairs.around[around[0]]
        if grown > replaced and not known:
            return False
    tables = [pairs.nodes[node], *edges]
    result = pairs.memo.get(("eliminated",), tables, lambda: _minimum(tables))
    if result is None:
        return False
    table, place = result
    state = np.asarray(pairs.states[node][place], dtype=np.int64)
    pairs.gone.append(
        EliminatedNode(node, around, tuple(pairs.states[other] for other in around), state)
    )
    for other in around:
        pairs.remove_edge(node, other)
    pairs.drop(node)
    if not around:
        pairs.constant_ns.append(float(table.cost))
        for life, array in table.memory.items():
            pairs.constant_bytes.setdefault(life, []).append(float(array))
    elif len(around) == 1:
        summands = (pairs.nodes[around[0]], table)
        pairs.nodes[around[0]] = pairs.memo.get(("sum",), summands, lambda: added(*summands))
    else:
        pairs.add_edge(around[0], around[1], table)
    return True


def _minimum(tables: Sequence[PairTable]) -> tuple[PairTable, IntArray] | None:
    """The least joint cost and memory over the neighbours, and the states that attain both; None
    where no state does."""
    dims = len(tables) - 1
    aligned = [_over(table, dim, dims) for dim, table in enumerate(tables)]
    joint = added(*aligned)
    finite = np.isfinite(joint.cost)
    cost = joint.cost.min(axis=0)
    best = joint.cost == cost
    for array in joint.memory.values():
        allowed = np.where(finite, array, np.inf)
        best &= (allowed == allowed.min(axis=0)) | ~finite
    if not best.any(axis=0).all():
        return None
    place = best.argmax(axis=0)
    memory = {
        life: part
        for life, array in joint.memory.items()
        if (part := np.take_along_axis(array, place[None], axis=0)[0]).any()
    }
    return PairTable(cost, memory), place


def _over(table: PairTable, dim: int, dims: int) -> PairTable:
    """Broadcast a table. dim 0: the node's own; else a pair's, the neighbour on axis `dim`."""
    index = (slice(None), *(slice(None) if axis == dim else None for axis in range(1, dims + 1)))
    return PairTable(
        table.cost[index], {life: array[index] for life, array in table.memory.items()}
    )
