"""The minimum over one variable of a sum of tables, without the joint table:

    result[1..r] = min over v of sum over operands o of o[axes of o]

Axis 0 is v, axes 1..r are the result's. A grouping says that v decides a result axis t: only the v
with select[v] == t count. Tables within another's axes are added to it first; two tables that
remain make a (min, +) product; more are looped over, the smallest first; large ones are streamed in
slices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solver.cost_graph import FloatArray, IntArray
from solver.elimination import min_plus

_SLICE_ENTRIES = 1 << 21  # chosen: 16 MB a temporary; larger ones gain no speed


@dataclass(frozen=True, slots=True)
class Operand:
    table: FloatArray
    axes: tuple[int, ...]

    def aligned(self, axes: tuple[int, ...]) -> FloatArray:
        """A view with these axes in this order, of extent 1 where the table has none."""
        order = [self.axes.index(axis) for axis in axes if axis in self.axes]
        index = tuple(slice(None) if axis in self.axes else None for axis in axes)
        return self.table.transpose(order)[index]


@dataclass(frozen=True, slots=True)
class Grouping:
    """v decides result axis `axis`."""

    select: IntArray
    axis: int


def minimum(
    operands: Sequence[Operand], groupings: Sequence[Grouping], extents: tuple[int, ...]
) -> FloatArray:
    """`extents[axis]` for axis 0 (v) and the result's; a result that no v reaches is inf."""
    if not groupings:
        return _streamed(list(operands), None, 1, extents, tuple(range(1, len(extents))))
    grouped = [grouping.axis for grouping in groupings]
    free = tuple(axis for axis in range(1, len(extents)) if axis not in grouped)
    select = np.zeros(extents[0], dtype=np.int64)
    for grouping in groupings:
        select = select * extents[grouping.axis] + grouping.select
        operands = [_follow(operand, grouping) for operand in operands]
    groups = math.prod(extents[axis] for axis in grouped)
    result = _streamed(list(operands), select, groups, extents, free)
    result = result.reshape([extents[axis] for axis in (*grouped, *free)])
    return result.transpose(np.argsort([*grouped, *free]))


def _follow(operand: Operand, grouping: Grouping) -> Operand:
    """The operand without the decided axis: read where v decides it to be."""
    if grouping.axis not in operand.axes:
        return operand
    rest = tuple(axis for axis in operand.axes if axis not in (0, grouping.axis))
    table = operand.aligned((0, grouping.axis, *rest))
    return Operand(table[np.arange(table.shape[0]), grouping.select], (0, *rest))


def _streamed(
    operands: list[Operand],
    select: IntArray | None,
    groups: int,
    extents: tuple[int, ...],
    free: tuple[int, ...],
) -> FloatArray:
    """Shape (groups, *free extents) with a select, else the free extents."""
    largest = max((operand.table.size for operand in operands), default=0)
    if largest <= _SLICE_ENTRIES or not free:
        return _minimum(_absorbed(operands), select, groups, extents, free)
    axis = max(free, key=lambda candidate: extents[candidate])
    step = max(1, _SLICE_ENTRIES * extents[axis] // largest)
    if step >= extents[axis]:
        return _minimum(_absorbed(operands), select, groups, extents, free)
    shape = [extents[other] for other in free]
    out = np.empty(shape if select is None else [groups, *shape])
    place = free.index(axis) + (0 if select is None else 1)
    for start in range(0, extents[axis], step):
        part = slice(start, min(start + step, extents[axis]))
        sliced = [_at(operand, axis, part) for operand in operands]
        inner = tuple(
            part.stop - part.start if i == axis else extent for i, extent in enumerate(extents)
        )
        out[(slice(None),) * place + (part,)] = _minimum(
            _absorbed(sliced), select, groups, inner, free
        )
    return out


def _at(operand: Operand, axis: int, part: slice) -> Operand:
    if axis not in operand.axes:
        return operand
    index = tuple(part if other == axis else slice(None) for other in operand.axes)
    return Operand(operand.table[index], operand.axes)


def _absorbed(operands: list[Operand]) -> list[Operand]:
    """No axes within another's: such tables are added to the smallest that can take them."""
    maximal: list[Operand] = []
    added: list[list[Operand]] = []
    for operand in sorted(operands, key=lambda o: (-len(o.axes), -o.table.size)):
        hosts = [i for i, host in enumerate(maximal) if set(operand.axes) <= set(host.axes)]
        if hosts:
            added[min(hosts, key=lambda i: maximal[i].table.size)].append(operand)
        else:
            maximal.append(operand)
            added.append([])
    return [_sum(host, guests) for host, guests in zip(maximal, added, strict=True)]


def _sum(host: Operand, guests: list[Operand]) -> Operand:
    if not guests:
        return host
    total = host.table + guests[0].aligned(host.axes)
    for guest in guests[1:]:
        total += guest.aligned(host.axes)
    return Operand(total, host.axes)


def _minimum(
    operands: list[Operand],
    select: IntArray | None,
    groups: int,
    extents: tuple[int, ...],
    free: tuple[int, ...],
) -> FloatArray:
    if len(operands) == 0:
        operands = [Operand(np.zeros(extents[0]), (0,))]
    if len(operands) == 1:
        return _minimum_of_one(operands[0], select, groups, free)
    if len(operands) == 2:
        return _minimum_of_two(operands[0], operands[1], select, groups, extents, free)
    return _minimum_of_more(operands, select, groups, extents, free)


def _minimum_of_one(
    operand: Operand, select: IntArray | None, groups: int, free: tuple[int, ...]
) -> FloatArray:
    table = operand.aligned((0, *free))
    if select is None:
        return np.asarray(table.min(axis=0))
    flat = table.reshape(table.shape[0], -1)
    return min_plus.grouped_minimum(flat, select, groups).reshape(groups, *table.shape[1:])


def _minimum_of_two(
    left: Operand,
    right: Operand,
    select: IntArray | None,
    groups: int,
    extents: tuple[int, ...],
    free: tuple[int, ...],
) -> FloatArray:
    shared = tuple(axis for axis in free if axis in left.axes and axis in right.axes)
    rows = tuple(axis for axis in free if axis in left.axes and axis not in right.axes)
    columns = tuple(axis for axis in free if axis not in left.axes)
    if math.prod(extents[a] for a in rows) > math.prod(extents[a] for a in columns):
        # The compiled loops run along the columns.
        left, right, rows, columns = right, left, columns, rows
    batch = math.prod(extents[axis] for axis in shared)
    a = left.aligned((*shared, *rows, 0)).reshape(batch, -1, extents[0])
    columns_extent = math.prod(extents[axis] for axis in columns)
    b = right.aligned((*shared, 0, *columns)).reshape(batch, extents[0], columns_extent)
    order = (*shared, *rows, *columns)
    shape = [extents[axis] for axis in order]
    if select is None:
        return min_plus.product(a, b).reshape(shape).transpose(np.argsort(order))
    result = min_plus.grouped_product(a, b, select, groups).reshape([groups, *shape])
    return result.transpose([0, *(np.argsort(order) + 1)])


def _minimum_of_more(
    operands: list[Operand],
    select: IntArray | None,
    groups: int,
    extents: tuple[int, ...],
    free: tuple[int, ...],
) -> FloatArray:
    """One state at a time of an axis of the smallest table, which then fits within another."""
    smallest = min(operands, key=lambda operand: operand.table.size)
    axis = min(
        (axis for axis in smallest.axes if axis != 0),
        key=lambda axis: (sum(axis in operand.axes for operand in operands), extents[axis]),
    )
    rest = tuple(other for other in free if other != axis)
    shape = [extents[other] for other in free]
    out = np.empty(shape if select is None else [groups, *shape])
    place = free.index(axis) + (0 if select is None else 1)
    for state in range(extents[axis]):
        fixed = [_fixed(operand, axis, state) for operand in operands]
        out[(slice(None),) * place + (state,)] = _minimum(
            _absorbed(fixed), select, groups, extents, rest
        )
    return out


def _fixed(operand: Operand, axis: int, state: int) -> Operand:
    if axis not in operand.axes:
        return operand
    place = operand.axes.index(axis)
    index = (slice(None),) * place + (state,)
    return Operand(operand.table[index], operand.axes[:place] + operand.axes[place + 1 :])
