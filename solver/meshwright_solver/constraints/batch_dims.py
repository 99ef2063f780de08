"""Data parallelism: every op's batch over as many devices as it divides by.

The batch of a tensor is the outermost slot of a dim whose size has the symbol `batch`; where the
graph has no such symbol, of dim 0 of inputs and labels. An op's batch is what is one index with the
batch of anything it reads or makes, so that it is followed through dims of whole numbers too.
Parameters have none. So is the sequence followed, for those who want it.
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
    return _followed(problem, _batch_slots(problem))


def sequence_parts(problem: Problem) -> tuple[Parts, ...]:
    """The same of the sequence: of dims whose size has the symbol `seq` and not `batch`."""
    found: dict[str, set[int]] = {}
    for name, info in problem.tensors.items():
        found[name] = set()
        for d, size in enumerate(info.tensor.shape):
            symbols = symbols_in(size)
            if info.tensor.role != "parameter" and SEQUENCE in symbols and BATCH not in symbols:
                found[name] |= _outermost(info, d)
    return _followed(problem, found)


def _followed(problem: Problem, batch: dict[str, set[int]]) -> tuple[Parts, ...]:
    """The parts that are one index with slots (by tensor) of what an op reads or makes."""
    found: list[Parts] = []
    for op in problem.ops:
        own = {
            part
            for port in (*op.inputs, *op.outputs)
            for part, slot in port.slot_of.items()
            if slot in batch[port.tensor]
        }
        for port in op.outputs:
            batch[port.tensor] |= {slot for part, slot in port.slot_of.items() if part in own}
        found.append(frozenset(own))
    return tuple(found)


def data_parallel(parts: Parts) -> StrategyFilter:
    """The one strategy with most devices on these parts, and nothing else sharded."""

    def keep(model: OpModel, choices: IntArray) -> NDArray[np.bool_]:
        fits = np.isin(choices, [*parts, model.idle]).all(axis=1)
        kept = np.zeros(len(choices), dtype=np.bool_)
        if fits.any():
            # ties: the first row, which has the slowest axes on the outermost part
            kept[int(np.argmax(np.where(fits, model.workers(choices), 0.0)))] = True
        return kept

    return keep


def _batch_slots(problem: Problem) -> dict[str, set[int]]:
    """By tensor; of what ops make only as far as its sizes say it."""
    symbolic = BATCH in problem.graph.symbols
    found: dict[str, set[int]] = {}
    for name, info in problem.tensors.items():
        found[name] = set()
        if info.tensor.role == "parameter":
            continue
        for d, size in enumerate(info.tensor.shape):
            is_batch = BATCH in symbols_in(size)
            if not symbolic:
                is_batch = d == 0 and info.tensor.role in ("input", "label", "cache")
            if is_batch:
                found[name] |= _outermost(info, d)
    return found


def _outermost(info: TensorInfo, dim: int) -> set[int]:
    own = [(slot.inner, k) for k, slot in enumerate(info.slots) if slot.dim == dim]
    return {max(own)[1]} if own else set()
