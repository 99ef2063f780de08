"""Holding tables: memory held from one event of a microbatch to another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.evaluation.memory.event_order import EventOrder

WIDTH = 7  # of a row: table, event, position, event, position, bytes, what
POSITIONS = (2, 4)


class HoldingKind(IntEnum):
    """Kinds of held memory.

    SAVED, RECOMPUTED: for the backward pass. WORKING: values and gradients between ops. GATHERED:
    parameters, and gradients of parameters before reduction.
    """

    SAVED = 0
    RECOMPUTED = 1
    WORKING = 2
    GATHERED = 3


class HoldingTable(IntEnum):
    """Table of a row. BUFFERS: bytes held all the time."""

    ROWS = 0
    GATHERS = 1
    UNREDUCED = 2
    BUFFERS = 3


@dataclass(frozen=True, slots=True)
class Holdings:
    """Rows (event, position, event, position, bytes, what): bytes held from one event to the other.

    gathers, unreduced: rows without `what`. gathers: parameters, with prefetch of the next.
    unreduced: gradients, reduced while the next are computed. buffers_bytes: buffers of pipeline
    transfers.
    """

    rows: IntArray
    gathers: IntArray
    unreduced: IntArray
    buffers_bytes: int

    @property
    def positions(self) -> IntArray:
        """Unique op positions of all rows, ascending."""
        tables = (self.rows, self.gathers, self.unreduced)
        return np.unique(np.concatenate([table[:, [1, 3]].ravel() for table in tables]))

    @staticmethod
    def of(rows: IntArray) -> Holdings:
        """Holdings from rows that begin with their table."""

        def of_table(table: HoldingTable, columns: int) -> IntArray:
            table_rows: IntArray = rows[rows[:, 0] == table, 1 : 1 + columns]
            return table_rows

        buffers = int(of_table(HoldingTable.BUFFERS, 6)[:, 4].sum())
        gathers, unreduced = of_table(HoldingTable.GATHERS, 5), of_table(HoldingTable.UNREDUCED, 5)
        return Holdings(of_table(HoldingTable.ROWS, 6), gathers, unreduced, buffers)


def place_rows(rows: IntArray, order: EventOrder, names: IntArray) -> IntArray:
    """Rows (first place, last place, bytes, ..) for every copy.

    names: (copies, positions), the position of each op in the execution order.
    """
    first = order.at[rows[:, 0], names[:, rows[:, 1]]]
    last = order.at[rows[:, 2], names[:, rows[:, 3]]]
    rest = np.tile(rows[:, 4:], (len(names), 1))
    return np.concatenate([first.reshape(-1, 1), last.reshape(-1, 1), rest], axis=1)
