"""Columns of the arrays of a `Course`; what is called a chain is the number of one."""

from __future__ import annotations

# of ops: chains of what they move by themselves before their work, beside it and after it, in both
# passes, and once more where they are done again
OP_BEFORE, OP_BESIDE, OP_AFTER = range(3)
OP_BACK_BEFORE, OP_BACK_BESIDE, OP_BACK_AFTER, OP_AGAIN = range(3, 7)
OP_WEIGHTS = 7  # of the backward pass, for gradients of parameters alone: nothing, ALL or a half
OP_RUNS_BACKWARD = 8
OP_SEGMENT = 9  # NOBODY of none
OP_IS_AGAIN = 10
OP_COLUMNS = 11

# of what an op reads: chains there and of its gradient back, and those of a parameter that is
# gathered for this reader alone
EDGE_READER, EDGE_PORT, EDGE_VALUE, EDGE_THERE, EDGE_BACK = range(5)
EDGE_AGAIN = 5  # whether it goes there again in the backward pass
EDGE_SAVING = 6  # whether the reader needs it there
EDGE_HAS_GRADIENT = 7
EDGE_GATHER, EDGE_OFTEN, EDGE_ONCE = range(8, 11)
EDGE_COLUMNS = 11

# of values: chains that readers share. PRODUCER: NOBODY of a parameter
VALUE_PRODUCER, VALUE_THERE, VALUE_BACK, VALUE_AGAIN = range(4)
VALUE_GATHER, VALUE_GATHER_AGAIN, VALUE_OFTEN, VALUE_ONCE, VALUE_SPREAD = range(4, 9)
VALUE_COLUMNS = 9

NOBODY = -1
ALL = 1
HALF = 2
