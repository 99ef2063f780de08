"""Folding: a graph of many equal layers as a graph of five, and the way back.

A *run* is a stretch of ops that repeats: op i and op i + period have the same kind, attributes,
rule and tensors of the same shapes, and read alike: from their own copy, from the copy before, or
a tensor that is free (constants, inputs), the same for all copies. Of such a run the first two
copies are kept, one from the middle and the last two; whatever lies between is like the middle one.

    copy of the graph    0  1  2 ... n-3  n-2  n-1
    kept copy            0  1      2       3    4

The ends are kept because sub-dims, values and what can be sharded may differ there. That the three
in the middle do not differ is checked where costs are known (`solver.unfolding`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from meshwright.schema import Graph, Op
from meshwright.schema.collector import uncollected
from solver.elimination.repeats import alike_spans
from solver.looks import OpLooks
from solver.rules.known import RECEIVE

KEPT = 5  # two at each end, one that stands for all between
MIDDLE = 2  # that one
LEAST_COPIES = KEPT + 2  # chosen: fewer gain nothing


@dataclass(frozen=True, slots=True)
class Run:
    """A folded run: `period` ops from position `start` of the graph, and all its copies.

    ops[j], tensors[j]: the names of copy j, in the same order for all; tensors are what its ops
    make, and the parameters and inputs that they alone read.
    """

    start: int
    period: int
    ops: tuple[tuple[str, ...], ...]
    tensors: tuple[tuple[str, ...], ...]

    @property
    def copies(self) -> int:
        return len(self.ops)

    @property
    def stood_for(self) -> int:
        """How many copies of the graph the middle one stands for."""
        return self.copies - KEPT + 1

    def number(self, kept: int) -> int:
        """Which copy of the graph a kept copy is."""
        return kept if kept <= MIDDLE else self.copies - KEPT + kept

    def kept(self, copy: int) -> int:
        """The kept copy that stands for a copy of the graph."""
        return min(copy, MIDDLE) if copy < self.copies - MIDDLE else copy - self.copies + KEPT

    def alike(self) -> Iterator[tuple[str, ...]]:
        """Ops and tensors of the middle kept copy, with those of its neighbours that are like it.

        One choice has to be made for each of these triples (`solver.unfolding` checks it).
        """
        copies = [self.number(kept) for kept in (MIDDLE, MIDDLE - 1, MIDDLE + 1)]
        for names in (self.ops, self.tensors):
            yield from zip(*(names[copy] for copy in copies), strict=True)

    def renamed(self, kept: int, copy: int) -> dict[str, str]:
        """Names of a kept copy -> those of a copy of the graph."""
        number = self.number(kept)
        names = dict(zip(self.ops[number], self.ops[copy], strict=True))
        names.update(zip(self.tensors[number], self.tensors[copy], strict=True))
        return names


@dataclass(frozen=True, slots=True)
class Folding:
    """The folded graph and its runs; without runs it is the graph itself."""

    graph: Graph
    runs: tuple[Run, ...]


@uncollected
def fold(graph: Graph, marks: Mapping[str, Hashable]) -> Folding:
    """Fold every run; ops with different marks are never alike."""
    order = graph.topological_order()
    spans = alike_spans(_looks(graph, order, marks), LEAST_COPIES)
    if not spans:
        return Folding(graph, ())
    stretches = _Stretches(graph, order)
    runs = [run for span in spans if (run := stretches.run(*span)) is not None]
    if not runs:
        return Folding(graph, ())
    return Folding(_without(graph, order, runs), tuple(runs))


def _looks(
    graph: Graph, order: Sequence[Op], marks: Mapping[str, Hashable]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """One number an op; equal numbers look alike but for what they read."""
    tensors = {
        tensor.name: (tensor.shape, tensor.dtype, tensor.role, tensor.trainable)
        for tensor in graph.tensors
    }
    numbers: dict[Hashable, int] = {}
    known = OpLooks()
    looks = []
    for op in order:
        key = (
            known.of(op),
            tuple([tensors[name] for name in op.inputs]),
            tuple([tensors[name] for name in op.outputs]),
            marks.get(op.name),
        )
        looks.append(numbers.setdefault(key, len(numbers)))
    return np.array(looks, dtype=np.int64)


class _Stretches:
    """Which copies of a span read alike."""

    def __init__(self, graph: Graph, order: Sequence[Op]) -> None:
        self.graph = graph
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
            if op.kind != RECEIVE and all(name in self.free for name in op.inputs):
                self.free.update(op.outputs)
        self.free.update(t.name for t in graph.tensors if t.role in ("input", "label"))
        self.ends = {*graph.outputs, graph.loss}

    def run(self, first: int, length: int, period: int) -> Run | None:
        """The longest stretch of whole copies in a span that read alike, if worth folding."""
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
        while copies and not self._is_closed(start, period, copies):
            copies -= 1
        if copies < LEAST_COPIES:
            return None
        starts = [start + c * period for c in range(copies)]
        return Run(
            start,
            period,
            tuple(tuple(op.name for op in self.order[s : s + period]) for s in starts),
            tuple(self._own_tensors(s, period) for s in starts),
        )

    def _reads(self, start: int, period: int) -> tuple[object, ...] | None:
        """What the ops of a copy read, as it is written in every copy; None where it is not so."""
        sources: dict[str, int] = {}
        found: list[object] = []
        for i in range(start, start + period):
            for name in self.order[i].inputs:
                if name in self.made:
                    producer, k = self.made[name]
                    if producer >= start - period:
                        found.append((producer - start, k))
                        continue
                elif self._is_own(name, start, period):
                    found.append(("own", sources.setdefault(name, len(sources))))
                    continue
                if name not in self.free:
                    return None
                found.append(name)
        return tuple(found)

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
                readers = self.readers.get(name, ())
                if name in self.ends or any(reader >= beyond for reader in readers):
                    return False
        return True

    def _own_tensors(self, start: int, period: int) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for op in self.order[start : start + period]:
            for name in op.inputs:
                if name not in self.made and self._is_own(name, start, period):
                    found[name] = None
            found.update(dict.fromkeys(op.outputs))
        return tuple(found)


def _without(graph: Graph, order: Sequence[Op], runs: Sequence[Run]) -> Graph:
    """The graph without the copies that another stands for."""
    gone: set[int] = set()
    dropped: set[str] = set()
    renamed: dict[int, dict[str, str]] = {}
    for run in runs:
        for copy in range(3, run.copies - 2):
            start = run.start + copy * run.period
            gone.update(range(start, start + run.period))
            dropped.update(run.tensors[copy])
        # the last but one now follows the one in the middle
        before, after = run.tensors[run.copies - 3], run.tensors[2]
        start = run.start + (run.copies - 2) * run.period
        for i in range(start, start + run.period):
            renamed[i] = dict(zip(before, after, strict=True))
    ops = []
    for i, op in enumerate(order):
        if i in gone:
            continue
        names = renamed.get(i)
        if names is not None:
            inputs = tuple([names.get(name, name) for name in op.inputs])
            op = op.model_copy(update={"inputs": inputs})
        ops.append(op)
    return graph.model_copy(
        update={
            "ops": tuple(ops),
            "tensors": tuple([t for t in graph.tensors if t.name not in dropped]),
        }
    )
