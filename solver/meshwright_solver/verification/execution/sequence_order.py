"""Sequences in the order in which they are loaded, and in that of their true positions.

What devices hold of a sequence is in the loaded order: layouts and steps count it. Sources that are
free are known by true positions, and taken in the order where an op reads them. Ops that go by
position see their inputs, and are given their gradients, by true positions.
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
    """chunks: by tensor and slot, in how many a sequence is loaded. by_position: names of ops."""

    problem: Problem
    chunks: Mapping[tuple[str, int], int] = field(default_factory=dict)
    by_position: frozenset[str] = frozenset()

    def tensor(self, name: str, whole: Array) -> Array:
        """A whole tensor of true positions as it is loaded."""
        return self._turned(name, whole, self._of_tensor(name), back=False)

    def read(self, op: OpInfo, port: OpPort, whole: Array) -> Array:
        """A whole tensor of true positions as an op reads or makes it."""
        return self._turned(port.tensor, whole, self._of_port(op, port), back=False)

    def by_place(self, op: OpInfo, port: OpPort, whole: Array) -> Array:
        """What an op that goes by position computes on, of what it reads or makes."""
        if op.name not in self.by_position:
            return whole
        return self._turned(port.tensor, whole, self._of_port(op, port), back=True)

    def as_loaded(self, op: OpInfo, port: OpPort, whole: Array) -> Array:
        """The way back."""
        return self.read(op, port, whole) if op.name in self.by_position else whole

    def _of_tensor(self, name: str) -> dict[int, int]:
        """Slot -> chunks; none of a constant, which is of no sequence but where it is read."""
        info = self.problem.tensors[name]
        if not self.chunks or info.constant:
            return {}
        own = ((k, self.chunks.get((name, k), 1)) for k in range(len(info.slots)))
        return {k: chunks for k, chunks in own if chunks > 1}

    def _of_port(self, op: OpInfo, port: OpPort) -> dict[int, int]:
        if not self.chunks or not self.problem.tensors[port.tensor].constant:
            return self._of_tensor(port.tensor)
        of_part: dict[int, int] = {}
        for other in (*op.inputs, *op.outputs):
            chunks = self._of_tensor(other.tensor)
            own = ((part, slot) for part, slot in other.slot_of.items() if slot in chunks)
            of_part.update({part: chunks[slot] for part, slot in own})
        return {slot: of_part[part] for part, slot in port.slot_of.items() if part in of_part}

    def _turned(
        self, name: str, whole: Array, chunks_of: Mapping[int, int], *, back: bool
    ) -> Array:
        if not chunks_of:
            return whole
        slots = self.problem.tensors[name].slots
        found = whole.reshape([slot.size for slot in slots])
        for k, chunks in chunks_of.items():
            positions = np.array(zigzag(slots[k].size, chunks))
            found = np.take(found, np.argsort(positions) if back else positions, axis=k)
        return found.reshape(whole.shape)
