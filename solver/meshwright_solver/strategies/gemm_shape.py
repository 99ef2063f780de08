"""GEMM shapes of products and attention: rows, columns, depth, groups, and their parts.

    product     x[groups rows depth], w[groups columns depth] -> y[groups rows columns]
    attention   q[groups rows depth], k[groups columns depth], v -> y[groups rows ..]

In grouped products only the second input has the groups; the rows are then those of all groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod

from meshwright_costmodel.curves import Shape
from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.problem.op_info import OpInfo

Parts = frozenset[int]
Ways = Callable[[Parts], FloatArray]


@dataclass(frozen=True, slots=True)
class WorkShape:
    """The GEMM shape of an op. whole: its sizes; groups to depth: the parts that make up each.

    rows_are_of_all: `rows` counts the rows of all groups.
    """

    whole: tuple[float, float, float, float]
    groups: Parts
    rows: Parts
    columns: Parts
    depth: Parts
    rows_are_of_all: bool

    def local(self, ways: Ways, load: FloatArray | float) -> Shape:
        """The local shape, (strategies,). load: tokens of the busiest device over the mean."""
        parts = (self.groups, self.rows, self.columns, self.depth)
        groups, rows, columns, depth = (
            size / ways(dim_parts) for size, dim_parts in zip(self.whole, parts, strict=True)
        )
        if self.rows_are_of_all:
            rows = rows / groups
        return Shape(groups, rows * load, columns, depth)


def work_shape(op: OpInfo) -> WorkShape | None:
    """The GEMM shape of an op; None for other ops, and for products whose FLOPs do not match."""
    if op.known is None or op.known.op_class not in ("matmul", "attention") or len(op.inputs) < 2:
        return None
    left, right = (frozenset(port.slot_of) for port in op.inputs[:2])
    out = frozenset(op.outputs[0].slot_of)
    rows, depth, both = (left & out) - right, (left & right) - out, left & right & out
    if op.known.op_class == "attention":
        return _shape(op, both, rows, right - left - out, depth)
    columns, others = (right & out) - left, right - left - out
    shape = _shape(op, both or others, rows, columns, depth, rows_are_of_all=bool(others))
    counted = prod(shape.whole[1:]) * (1.0 if others else shape.whole[0])
    return shape if op.flops == 2 * counted and not (both and others) else None


def _shape(
    op: OpInfo, groups: Parts, rows: Parts, columns: Parts, depth: Parts,
    *, rows_are_of_all: bool = False,
) -> WorkShape:  # fmt: skip
    return WorkShape(
        (_size(op, groups), _size(op, rows), _size(op, columns), _size(op, depth)),
        groups, rows, columns, depth, rows_are_of_all,
    )  # fmt: skip


def _size(op: OpInfo, parts: Iterable[int]) -> float:
    return float(prod(op.parts[part].size for part in parts))
