"""Sparse gradients of lookup tables: ids and rows of what was looked up, instead of a whole table.

    made        by a microbatch on a device: an id and a row for each of its lookups, equal ids
                apart; those of a step stand one behind the other
    reduction   once a step, all-gathers of ids and of rows over the axes on which the reader leaves
                a partial gradient; nothing over axes that cut the table
    held        what is then there: of all microbatches, of all devices that were gathered from
    update      (2 * optimizer state + gradient + value) of the rows held, at most of all there are

Value and optimizer state lie as the reader needs the value. An update leaves rows alone that nobody
looked up (torch.optim.SparseAdam, MindSpore's LazyAdam): another trajectory than that of an Adam
whose moments decay everywhere, so a request has to allow it
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
    """By strategy of the lookup, on one device. made_bytes: of a microbatch. held_bytes, elements:
    of all that is there at the end of a step. gather_ns: once a step."""

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
    """looked_up: elements of the rows that one microbatch looks up on a device; row_elements: of
    such a row. partial: (strategies, axes), on which the lookup leaves a partial gradient."""
    ways = np.where(partial, np.array(axis_sizes, dtype=np.float64), 1.0).prod(axis=1)
    ids_bytes = looked_up / row_elements * ROW_ID_BYTES
    rows_bytes = looked_up * size.gradient
    gather_ns = np.zeros(len(ways))
    for own, among in axis_groups(partial):
        extents = interconnect.extents_of((axis_levels[a], axis_sizes[a]) for a in own)
        cost = collective_cost("all_gather", extents, interconnect)
        for payload in (ids_bytes, rows_bytes):
            gather_ns[among] += cost.ns((payload * ways)[among] * microbatches)
    made = ids_bytes + rows_bytes
    return RowGradients(
        made, made * ways * microbatches, looked_up * ways * microbatches, gather_ns
    )
