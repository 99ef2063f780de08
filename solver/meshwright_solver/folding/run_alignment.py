"""Run alignment: the copies in a span of equal op labels that also have corresponding inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshwright.schema import Graph, Op
from meshwright_solver.rules.op_knowledge import RECEIVE


@dataclass(frozen=True, slots=True)
class AlignedCopies:
    """Copies of `period` ops each, the first at position `start`.

    tensors[j]: outputs of the ops of copy j, and the parameters and inputs that no other ops read,
    in the same order for all copies.
    """

    start: int
    period: int
    tensors: tuple[tuple[str, ...], ...]

    @property
    def copies(self) -> int:
        return len(self.tensors)

    @property
    def stop(self) -> int:
        """Position after the last copy."""
        return self.start + self.copies * self.period


class Stretches:
    """Spans of copies with corresponding inputs."""

    def __init__(self, graph: Graph, order: Sequence[Op]) -> None:
        self.order = order
        self.made = {
            name: (i, k) for i, op in enumerate(order) for k, name in enumerate(op.outputs)
        }
        self.readers: dict[str, list[int]] = {}
        for i, op in enumerate(order):
            for name in op.inputs:
                self.readers.setdefault(name, []).append(i)
        self.free = {t.name for t in graph.tensors if t.role in ("constant", "buffer")}
        for op in order:
            if op.kind != RECEIVE and self.free.issuperset(op.inputs):
                self.free.update(op.outputs)
        self.free.update(t.name for t in graph.tensors if t.role in ("input", "label"))
        self.ends = {*graph.outputs, graph.loss}

    def longest(self, first: int, length: int, period: int, least: int) -> AlignedCopies | None:
        """Longest sequence of at least `least` whole copies with corresponding inputs; None if too
        short."""
        count = length // period
        model = first + (count // 2) * period
        reads = self._reads(model, period)
        if reads is None:
            return None
        alike = [self._reads(first + c * period, period) == reads for c in range(count)]
        low = high = count // 2
        while low > 0 and alike[low - 1]:
            low -= 1
        while high + 1 < count and alike[high + 1]:
            high += 1
        # the first copy may read ops before the run instead of a copy
        start, copies = first + low * period, high - low + 1
        while copies >= least and not self._is_closed(start, period, copies):
            copies -= 1
        if copies < least:
            return None
        starts = range(start, start + copies * period, period)
        return AlignedCopies(start, period, tuple([self._own_tensors(s, period) for s in starts]))

    def _reads(self, start: int, period: int) -> tuple[object, ...] | None:
        """Inputs of a copy, relative to the copy; None if other copies cannot correspond."""
        sources: dict[str, int] = {}
        reads: list[object] = []
        for i in range(start, start + period):
            for name in self.order[i].inputs:
                if name in self.made:
                    producer, k = self.made[name]
                    if producer >= start - period:
                        reads.append((producer - start, k))
                        continue
                elif self._is_own(name, start, period):
                    reads.append(("own", sources.setdefault(name, len(sources))))
                    continue
                if name not in self.free:
                    return None
                reads.append(name)
        return tuple(reads)

    def _is_own(self, name: str, start: int, period: int) -> bool:
        readers = self.readers[name]
        return start <= readers[0] and readers[-1] < start + period

    def _is_closed(self, start: int, period: int, copies: int) -> bool:
        """Whether ops after the run read the last copy only."""
        stop = start + copies * period
        for i in range(start, stop - period):
            copy = (i - start) // period
            beyond = min(stop, start + (copy + 2) * period)
            for name in self.order[i].outputs:
                readers = self.readers.get(name)
                if name in self.ends or (readers and readers[-1] >= beyond):
                    return False
        return True

    def _own_tensors(self, start: int, period: int) -> tuple[str, ...]:
        tensors: dict[str, None] = {}
        for op in self.order[start : start + period]:
            for name in op.inputs:
                if name not in self.made and self._is_own(name, start, period):
                    tensors[name] = None
            tensors.update(dict.fromkeys(op.outputs))
        return tuple(tensors)
