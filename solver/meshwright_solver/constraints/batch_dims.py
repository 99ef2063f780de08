"""Data parallelism: every op's batch over as many devices as it divides by.

The batch of a tensor is the outermost slot of a dim whose size has the symbol `batch`. In a graph
without that symbol it is the outermost slot of dim 0 of inputs and labels. An op's batch parts are
identified with the batch of a tensor that the op reads or writes; the batch thus propagates through
dims of constant size too. Parameters have no batch. The sequence propagates in the same way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meshwright.schema.sizes import symbols_in
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.problem.op_info import TensorInfo
from meshwright_solver.problem.problem import Problem
from meshwright_solver.strategies.op_model import OpModel, StrategyFilter

BATCH = "batch"
SEQUENCE = "seq"
Parts = frozenset[int]


def batch_parts(problem: Problem) -> tuple[Parts, ...]:
    """The parts of every op, by position, that are its batch."""
    return _propagate(problem, _batch_slots(problem))


def sequence_parts(problem: Problem) -> tuple[Parts, ...]:
    """The sequence parts of every op: of dims whose size has the symbol `seq` and not `batch`."""
    slots_of: dict[str, set[int]] = {}
    for name, info in problem.tensors.items():
        slots_of[name] = set()
        for d, size in enumerate(info.tensor.shape):
            symbols = symbols_in(size)
            if info.tensor.role != "parameter" and SEQUENCE in symbols and BATCH not in symbols:
                slots_of[name] |= _outermost(info, d)
    return _propagate(problem, slots_of)


def _propagate(problem: Problem, batch: dict[str, set[int]]) -> tuple[Parts, ...]:
    """Propagate batch slots (by tensor) in topological order; return the batch parts of ops."""
    parts_of_ops: list[Parts] = []
    for op in problem.ops:
        parts = {
            part
            for port in (*op.inputs, *op.outputs)
            for part, slot in port.slot_of.items()
            if slot in batch[port.tensor]
        }
        for port in op.outputs:
            batch[port.tensor] |= {slot for part, slot in port.slot_of.items() if part in parts}
        parts_of_ops.append(frozenset(parts))
    return tuple(parts_of_ops)


def data_parallel(parts: Parts) -> StrategyFilter:
    """A filter that keeps one strategy: most devices on these parts, nothing else sharded."""

    def keep(model: OpModel, choices: IntArray) -> NDArray[np.bool_]:
        fits = np.isin(choices, [*parts, model.idle]).all(axis=1)
        mask = np.zeros(len(choices), dtype=np.bool_)
        if fits.any():
            # ties: the first row, which has the slowest axes on the outermost part
            mask[int(np.argmax(np.where(fits, model.workers(choices), 0.0)))] = True
        return mask

    return keep


def _batch_slots(problem: Problem) -> dict[str, set[int]]:
    """Batch slots by tensor; of op outputs only the dims whose size has the symbol."""
    symbolic = BATCH in problem.graph.symbols
    slots_of: dict[str, set[int]] = {}
    for name, info in problem.tensors.items():
        slots_of[name] = set()
        if info.tensor.role == "parameter":
            continue
        for d, size in enumerate(info.tensor.shape):
            is_batch = BATCH in symbols_in(size)
            if not symbolic:
                is_batch = d == 0 and info.tensor.role in ("input", "label", "cache")
            if is_batch:
                slots_of[name] |= _outermost(info, d)
    return slots_of


def _outermost(info: TensorInfo, dim: int) -> set[int]:
    slots = [(slot.inner, k) for k, slot in enumerate(info.slots) if slot.dim == dim]
    return {max(slots)[1]} if slots else set()
