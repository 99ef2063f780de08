"""The minimum over one variable of a sum of tables, without the joint table:

    result[1..r] = min over v of sum over operands o of o[axes of o]

Axis 0 is v, axes 1..r are the result's. A grouping states that v decides a result axis t: only the
v with select[v] == t count. A table whose axes lie within another's is added to that table first.
Two remaining tables make a (min, +) product. More tables need a loop over the states of the
smallest. Large tables are streamed in slices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.elimination import min_plus

_SLICE_ENTRIES = 1 << 21  # chosen: 16 MB a temporary; larger ones gain no speed


@dataclass(frozen=True, slots=True)
class Operand:
    table: FloatArray
    axes: tuple[int, ...]

    def aligned(self, axes: tuple[int, ...]) -> FloatArray:
        """A view with these axes in this order, of extent 1 where the table has none."""
        return _transposed(self.table, _view(self.axes, axes))


@dataclass(frozen=True, slots=True)
class Grouping:
    """v decides result axis `axis`."""

    select: IntArray
    axis: int


View = tuple[list[int], tuple[slice | None, ...]]  # how to transpose and to index a table


@dataclass(frozen=True, slots=True)
class MinSumPlan:
    """A minimum over tables of known shapes: the analysis of their axes, shared by all weights.

    sums: the place of every remaining table, and the views of the tables that are added to it.
    left, right: as `min_plus.product` needs them.
    """

    sums: tuple[tuple[int, tuple[tuple[int, View], ...]], ...]
    left: View
    right: View | None
    left_shape: tuple[int, ...] = ()
    right_shape: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    back: tuple[int, ...] = ()

    @staticmethod
    def of(
        axes: Sequence[tuple[int, ...]], extents: tuple[int, ...], shapes: Sequence[tuple[int, ...]]
    ) -> MinSumPlan | None:
        """axes, shapes: of every table. None where `minimum` needs a loop or slices."""
        sizes = [math.prod(shape) for shape in shapes]
        sums = _hosts(axes, sizes)
        if not sums or len(sums) > 2 or max(sizes) > _SLICE_ENTRIES:
            return None
        views = tuple(
            [
                (host, tuple([(guest, _view(axes[guest], axes[host])) for guest in guests]))
                for host, guests in sums
            ]
        )
        free = tuple(range(1, len(extents)))
        one, *two = [axes[host] for host, _ in sums]
        if not two:
            return MinSumPlan(views, _view(one, (0, *free)), None)
        shared, rows, columns, is_turned = _sides(one, two[0], extents, free)
        if is_turned:
            one, two, views = two[0], [one], views[::-1]
        order = (*shared, *rows, *columns)
        batch = math.prod(extents[axis] for axis in shared)
        return MinSumPlan(
            views,
            _view(one, (*shared, *rows, 0)),
            _view(two[0], (*shared, 0, *columns)),
            (batch, -1, extents[0]),
            (batch, extents[0], math.prod(extents[axis] for axis in columns)),
            tuple(extents[axis] for axis in order),
            tuple(np.argsort(order).tolist()),
        )

    def minimum(self, tables: Sequence[FloatArray]) -> FloatArray:
        """The minimum, as the function `minimum` computes it."""
        summed = []
        for host, guests in self.sums:
            total = tables[host]
            for number, (guest, view) in enumerate(guests):
                if number:
                    total += _transposed(tables[guest], view)
                else:
                    total = total + _transposed(tables[guest], view)
            summed.append(total)
        left = _transposed(summed[0], self.left)
        if self.right is None:
            return np.asarray(left.min(axis=0))
        right = _transposed(summed[1], self.right).reshape(self.right_shape)
        product = min_plus.product(left.reshape(self.left_shape), right)
        return product.reshape(self.shape).transpose(self.back)


def _view(table_axes: tuple[int, ...], axes: tuple[int, ...]) -> View:
    """A table with these axes in this order, of extent 1 where it has none."""
    order = [table_axes.index(axis) for axis in axes if axis in table_axes]
    return order, tuple([slice(None) if axis in table_axes else None for axis in axes])


def _transposed(table: FloatArray, view: View) -> FloatArray:
    order, index = view
    return table.transpose(order)[index]


def minimum(
    operands: Sequence[Operand], groupings: Sequence[Grouping], extents: tuple[int, ...]
) -> FloatArray:
    """extents: of axis 0 (v) and of the result's axes. A result that no v reaches is inf."""
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
    """The operand without the decided axis, read at the state that v decides."""
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
    """Operands without axes within another's: such tables are added to the smallest host."""
    axes = [operand.axes for operand in operands]
    sizes = [operand.table.size for operand in operands]
    return [
        _sum(operands[host], [operands[guest] for guest in guests])
        for host, guests in _hosts(axes, sizes)
    ]


def _hosts(axes: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> list[tuple[int, list[int]]]:
    """The places of the remaining tables, each with the places of those added to it."""
    groups: list[tuple[int, list[int]]] = []
    for place in sorted(range(len(axes)), key=lambda place: (-len(axes[place]), -sizes[place])):
        hosts = [group for group in groups if set(axes[place]) <= set(axes[group[0]])]
        if hosts:
            min(hosts, key=lambda host: sizes[host[0]])[1].append(place)
        else:
            groups.append((place, []))
    return groups


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
    shared, rows, columns, is_turned = _sides(left.axes, right.axes, extents, free)
    if is_turned:
        left, right = right, left
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


def _sides(
    left: tuple[int, ...], right: tuple[int, ...], extents: tuple[int, ...], free: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], bool]:
    """Axes of both, of left only and of right only; and whether left and right are swapped."""
    shared = tuple(axis for axis in free if axis in left and axis in right)
    rows = tuple(axis for axis in free if axis in left and axis not in right)
    columns = tuple(axis for axis in free if axis not in left)
    if math.prod(extents[a] for a in rows) > math.prod(extents[a] for a in columns):
        # The compiled loops run along the columns.
        return shared, columns, rows, True
    return shared, rows, columns, False


def _minimum_of_more(
    operands: list[Operand],
    select: IntArray | None,
    groups: int,
    extents: tuple[int, ...],
    free: tuple[int, ...],
) -> FloatArray:
    """The minimum state by state of an axis of the smallest table, which then fits within
    another."""
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
