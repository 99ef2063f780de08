"""Sparse gradients of lookup tables: the looked-up rows and their ids, instead of a whole table.

    produced    by a microbatch on a device: an id and a row for each lookup, equal ids not merged;
                those of a step are concatenated
    reduction   once a step, all-gathers of ids and of rows over the axes on which the reader's
                gradient is partial; nothing over axes that cut the table
    held        the rows of all microbatches, from all devices of the all-gathers
    update      (2 * optimizer state + gradient + value) of the rows held, at most all rows

Value and optimizer state are in the layout that the reader needs. An update leaves all other rows
unchanged (torch.optim.SparseAdam, MindSpore's LazyAdam). The result differs from Adam, whose
moments decay in all rows, so a request has to allow it
(`meshwright_solver.strategies.sparse_tables`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meshwright_costmodel.collectives import Interconnect, collective_cost
from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.common.axis_groups import axis_groups
from meshwright_solver.strategies.offload import ElementBytes

ROW_ID_BYTES = 8  # int64, as torch.sparse_coo_tensor keeps indices


class RowGradients(NamedTuple):
    """Sparse gradients on one device, by strategy of the lookup.

    made_bytes: of one microbatch. held_bytes, elements: at the end of a step, after the gathers.
    gather_ns: once a step.
    """

    made_bytes: FloatArray
    held_bytes: FloatArray
    elements: FloatArray
    gather_ns: FloatArray


def row_gradients(
    looked_up: FloatArray,
    row_elements: FloatArray,
    partial: NDArray[np.bool_],
    size: ElementBytes,
    *,
    axis_sizes: tuple[int, ...],
    axis_levels: tuple[int, ...],
    interconnect: Interconnect,
    microbatches: int,
) -> RowGradients:
    """Sparse gradients of a lookup, by strategy.

    looked_up: elements of the rows that one microbatch looks up on a device. row_elements: of one
    row. partial: (strategies, axes), whether the lookup's gradient is partial.
    """
    ways = np.where(partial, np.array(axis_sizes, dtype=np.float64), 1.0).prod(axis=1)
    ids_bytes = looked_up / row_elements * ROW_ID_BYTES
    rows_bytes = looked_up * size.gradient
    gather_ns = np.zeros(len(ways))
    for group, among in axis_groups(partial):
        extents = interconnect.extents_of((axis_levels[a], axis_sizes[a]) for a in group)
        cost = collective_cost("all_gather", extents, interconnect)
        for payload in (ids_bytes, rows_bytes):
            gather_ns[among] += cost.ns((payload * ways)[among] * microbatches)
    made_bytes = ids_bytes + rows_bytes
    return RowGradients(
        made_bytes, made_bytes * ways * microbatches, looked_up * ways * microbatches, gather_ns
    )
