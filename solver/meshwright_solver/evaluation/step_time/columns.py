"""Columns of the arrays of a `StageDag`. A chain column holds the number of a chain."""

from __future__ import annotations

# ops: chains of their own collectives before, beside and after the work, in both passes, and for
# recomputation
OP_BEFORE, OP_BESIDE, OP_AFTER = range(3)
OP_BACK_BEFORE, OP_BACK_BESIDE, OP_BACK_AFTER, OP_AGAIN = range(3, 7)
OP_WEIGHTS = 7  # share of the backward pass for parameter gradients only: NOTHING, HALF or ALL
OP_RUNS_BACKWARD = 8
OP_SEGMENT = 9  # recompute segment, or NOBODY
OP_IS_AGAIN = 10
OP_COLUMNS = 11

# edges: chains of the value to its reader and of the gradient back, and chains of a parameter that
# is gathered for this reader only
EDGE_READER, EDGE_PORT, EDGE_VALUE, EDGE_THERE, EDGE_BACK = range(5)
EDGE_AGAIN = 5  # whether the value moves again in the backward pass
EDGE_SAVING = 6  # whether the reader needs the value in the backward pass
EDGE_HAS_GRADIENT = 7
EDGE_GATHER, EDGE_OFTEN, EDGE_ONCE = range(8, 11)
EDGE_COLUMNS = 11

# values: chains that readers share. PRODUCER: NOBODY for a parameter
VALUE_PRODUCER, VALUE_THERE, VALUE_BACK, VALUE_AGAIN = range(4)
VALUE_GATHER, VALUE_GATHER_AGAIN, VALUE_OFTEN, VALUE_ONCE, VALUE_SPREAD = range(4, 9)
VALUE_COLUMNS = 9

NOBODY = -1
ALL = 1
HALF = 2
