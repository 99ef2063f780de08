"""Sequences in the order in which they are loaded, and in that of their true positions.

Devices hold a sequence in the loaded order, to which layouts and steps refer. Free sources are in
the order of true positions, and are reordered where an op reads them. Ops that depend on the
position see inputs and gradients by true positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from meshwright.schema.sequence_order import zigzag
from meshwright_solver.problem.op_info import OpInfo, OpPort
from meshwright_solver.problem.problem import Problem
from meshwright_solver.verification.execution.shards import Array


@dataclass(frozen=True, slots=True)
class LoadedOrder:
    """The order of loaded sequences.

    chunks: by tensor and slot, the number of chunks of a loaded sequence. by_position: names of ops
    that depend on the position.
    """

    problem: Problem
    chunks: Mapping[tuple[str, int], int] = field(default_factory=dict)
    by_position: frozenset[str] = frozenset()

    def tensor(self, name: str, whole: Array) -> Array:
        """A whole tensor, from true positions to the loaded order."""
        return self._reorder(name, whole, self._of_tensor(name), back=False)

    def read(self, op: OpInfo, port: OpPort, whole: Array) -> Array:
        """A whole tensor, from true positions to the order in which an op reads or makes it."""
        return self._reorder(port.tensor, whole, self._of_port(op, port), back=False)

    def by_place(self, op: OpInfo, port: OpPort, whole: Array) -> Array:
        """A whole tensor that an op reads or makes, by true positions if the op depends on them."""
        if op.name not in self.by_position:
            return whole
        return self._reorder(port.tensor, whole, self._of_port(op, port), back=True)

    def as_loaded(self, op: OpInfo, port: OpPort, whole: Array) -> Array:
        """The inverse of `by_place`."""
        return self.read(op, port, whole) if op.name in self.by_position else whole

    def _of_tensor(self, name: str) -> dict[int, int]:
        """Slot -> chunks; none for a constant, whose order depends on its reader."""
        info = self.problem.tensors[name]
        if not self.chunks or info.constant:
            return {}
        counts = ((k, self.chunks.get((name, k), 1)) for k in range(len(info.slots)))
        return {k: chunks for k, chunks in counts if chunks > 1}

    def _of_port(self, op: OpInfo, port: OpPort) -> dict[int, int]:
        if not self.chunks or not self.problem.tensors[port.tensor].constant:
            return self._of_tensor(port.tensor)
        of_part: dict[int, int] = {}
        for other in (*op.inputs, *op.outputs):
            chunks = self._of_tensor(other.tensor)
            pairs = ((part, slot) for part, slot in other.slot_of.items() if slot in chunks)
            of_part.update({part: chunks[slot] for part, slot in pairs})
        return {slot: of_part[part] for part, slot in port.slot_of.items() if part in of_part}

    def _reorder(
        self, name: str, whole: Array, chunks_of: Mapping[int, int], *, back: bool
    ) -> Array:
        if not chunks_of:
            return whole
        slots = self.problem.tensors[name].slots
        reordered = whole.reshape([slot.size for slot in slots])
        for k, chunks in chunks_of.items():
            positions = np.array(zigzag(slots[k].size, chunks))
            reordered = np.take(reordered, np.argsort(positions) if back else positions, axis=k)
        return reordered.reshape(whole.shape)
