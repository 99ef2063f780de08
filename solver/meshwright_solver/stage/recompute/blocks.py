"""Blocks of a graph: its repeated parts, each from one narrow place to the next.

A run of repeats (`meshwright_solver.search.elimination.repeats`) gives the length of a block, not
its start. A block starts where the fewest bytes cross from earlier to later ops: in a transformer
before the first norm of a layer.

A pipeline stage has the blocks of the whole graph: alone it may have no repeats.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.repeats import alike_spans
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import ProblemValue, Values
from meshwright_solver.problem.weight_casts import is_weight_cast

_LEAST_REPEATS = 2  # two layers are layers

BlockNames = tuple[tuple[str, ...], ...]  # by block, the names of its ops


def blocks(problem: Problem, values: Values, names: BlockNames | None = None) -> list[range]:
    """Positions of ops, in order; each block holds at least one product with parameters.

    names: the blocks of the whole graph, where the problem is of a part of it.
    """
    if names is not None:
        return _named_blocks(problem, values, names)
    crossing = _crossing_bytes(problem, values)
    ranges: list[range] = []
    for first, length, period in alike_spans(_looks(problem, values), _LEAST_REPEATS):
        for block in _cut(crossing, first, length, period):
            if _has_product(problem, values, block) and (
                not ranges or ranges[-1].stop <= block.start
            ):
                ranges.append(block)
    return ranges


def block_names(problem: Problem, values: Values) -> BlockNames:
    """The names of the ops of each block."""
    return tuple(
        [tuple([op.name for op in problem.ops[block.start : block.stop]])
         for block in blocks(problem, values)]
    )  # fmt: skip


def _named_blocks(problem: Problem, values: Values, names: BlockNames) -> list[range]:
    position_of = problem.position_of
    ranges: list[range] = []
    for block in names:
        positions = [position_of[name] for name in block if name in position_of]
        if not positions:
            continue
        first = max(min(positions), ranges[-1].stop if ranges else 0)
        if _has_product(problem, values, part := range(first, max(positions) + 1)):
            ranges.append(part)
    return ranges


def _cut(crossing: FloatArray, first: int, length: int, period: int) -> list[range]:
    """The span, cut where the fewest bytes cross; also before it and behind, where as few do.

    The remainder at either end is a block too: half a layer of a pipeline stage.
    """
    middle = first + (length // period // 2) * period
    middle = min(middle, first + length - period)
    phase = middle + int(crossing[middle : middle + period].argmin())
    least = crossing[phase]
    start = phase - (phase - first) // period * period
    begins = list(range(start, first + length + 1, period))
    if begins[0] - period >= 0 and crossing[begins[0] - period] <= least:
        begins.insert(0, begins[0] - period)
    if begins[-1] + period < len(crossing) and crossing[begins[-1] + period] <= least:
        begins.append(begins[-1] + period)
    ends = {min(first, begins[0]), max(first + length, begins[-1])}
    return [range(a, b) for a, b in pairwise(sorted(ends.union(begins)))]


def _crossing_bytes(problem: Problem, values: Values) -> FloatArray:
    """By position: bytes from earlier ops to this one and later ones; one more at the end."""
    change = np.zeros(len(problem.ops) + 1)
    for value in values.values:
        if value.producer is None or value.is_free or not value.readers:
            continue
        size = problem.tensors[value.root].bytes
        change[value.producer[0] + 1] += size
        change[max(position for position, _ in value.readers) + 1] -= size
    crossing: FloatArray = np.cumsum(change)
    return crossing


def _looks(problem: Problem, values: Values) -> IntArray:
    """A number for every op, equal for equal rules, shapes and possible shardings."""
    numbers: dict[Hashable, int] = {}
    tensors = problem.tensors
    looks = []
    for position, op in enumerate(problem.ops):
        ports = (*op.inputs, *op.outputs)
        key = (
            op.op.kind,
            id(op.known),
            values.looks[position],
            tuple([(tensors[p.tensor].shape, tensors[p.tensor].tensor.dtype) for p in ports]),
        )
        looks.append(numbers.setdefault(key, len(numbers)))
    return np.array(looks, dtype=np.int64)


def _has_product(problem: Problem, values: Values, block: Sequence[int]) -> bool:
    return any(is_weighted_product(problem, values, position) for position in block)


def is_weighted_product(problem: Problem, values: Values, position: int) -> bool:
    """Whether an op multiplies with a parameter, or with the cast of one as under autocast."""
    op = problem.ops[position]
    if op.known is None or op.known.op_class not in ("matmul", "convolution"):
        return False
    return any(_is_weight(problem, values.value_of[port.tensor]) for port in op.inputs)


def _is_weight(problem: Problem, value: ProblemValue) -> bool:
    if value.is_parameter:
        return True
    return value.producer is not None and is_weight_cast(problem, value.producer[0])
