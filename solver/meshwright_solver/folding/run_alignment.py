"""Stretches: which copies in a span of ops that look alike read alike too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meshwright.schema import Graph, Op
from meshwright_solver.rules.op_knowledge import RECEIVE


@dataclass(frozen=True, slots=True)
class AlignedCopies:
    """Copies of `period` ops each, the first at position `start`.

    tensors[j]: what the ops of copy j make, and the parameters and inputs that they alone read, in
    the same order for all.
    """

    start: int
    period: int
    tensors: tuple[tuple[str, ...], ...]

    @property
    def copies(self) -> int:
        return len(self.tensors)

    @property
    def stop(self) -> int:
        """The position behind the last."""
        return self.start + self.copies * self.period


class Stretches:
    """Which copies of a span read alike."""

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
        """The longest stretch of whole copies in a span that read alike, of at least so many."""
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
        # one more at the start may read what lies before instead of a copy
        start, copies = first + low * period, high - low + 1
        while copies >= least and not self._is_closed(start, period, copies):
            copies -= 1
        if copies < least:
            return None
        starts = range(start, start + copies * period, period)
        return AlignedCopies(start, period, tuple([self._own_tensors(s, period) for s in starts]))

    def _reads(self, start: int, period: int) -> tuple[object, ...] | None:
        """What the ops of a copy read, as it is written in every copy; None where it is not so."""
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
        """Whether only the last copy is read behind the run."""
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
