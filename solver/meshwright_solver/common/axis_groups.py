"""Axis groups: rows of a table by the mesh axes that they mark, so that each set is priced once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def axis_groups(
    marked: NDArray[np.bool_],
) -> Iterator[tuple[tuple[int, ...], NDArray[np.bool_]]]:
    """Nonempty sets of axes, each with the rows that mark exactly these axes.

    marked: (rows, axes).
    """
    axes = marked.shape[1]
    groups = marked @ (1 << np.arange(axes))
    for group in range(1, 1 << axes):
        rows = groups == group
        if rows.any():
            yield tuple(a for a in range(axes) if group >> a & 1), rows
