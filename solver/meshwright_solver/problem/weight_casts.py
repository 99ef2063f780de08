"""Casts of parameters, which need no activation and therefore run ahead of their readers.

Autocast leaves parameters in float32 and casts them for each product. Such a cast runs just before
the product ahead of its reader, so that its redistribution takes place during that product.
Frameworks that shard parameters gather them ahead in the same way (FSDP's prefetch). The backward
pass runs in the reverse order, and reduces gradients during the next product.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.problem.problem import Problem

CAST = "cast"


def weight_casts(problem: Problem) -> frozenset[int]:
    """Positions of ops that cast a parameter."""
    return frozenset(
        position for position in range(len(problem.ops)) if is_weight_cast(problem, position)
    )


def is_weight_cast(problem: Problem, position: int) -> bool:
    """Whether an op casts a parameter."""
    op = problem.ops[position]
    return op.op.kind == CAST and problem.tensors[op.inputs[0].tensor].tensor.role == "parameter"


def running_order(is_cast: NDArray[np.bool_], first_reader: IntArray) -> IntArray:
    """The order in which ops run, as places in the order of the graph.

    is_cast: by place, whether the op casts a parameter. first_reader: by place, the place of the
    first reader of such an op.
    """
    key = 2 * np.arange(len(is_cast))
    casts = np.flatnonzero(is_cast & (first_reader < len(is_cast)))
    readers, group = np.unique(first_reader[casts], return_inverse=True)
    ahead = np.concatenate([[0], readers[:-1]])[group] if len(readers) else readers
    key[casts] = 2 * ahead - 1
    return np.argsort(key, kind="stable")
