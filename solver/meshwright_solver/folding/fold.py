"""Folding: a graph of many identical layers as a graph of five, with the inverse mapping.

A *run* is a sequence of ops that repeats: op i and op i + period have the same kind, attributes,
rule and tensor shapes, and the same kind of inputs. An input comes from the same copy, from the
copy before, or from a free tensor (constants, inputs) that all copies share. Folding keeps the
first two copies of a run, one from the middle and the last two. The kept middle copy stands for all
copies between.

    copy of the graph    0  1  2 ... n-3  n-2  n-1
    kept copy            0  1      2       3    4

The copies at the ends are kept because their sub-dims, values and shardable dims may differ. The
three copies in the middle must not differ, which `meshwright_solver.folding.unfold` checks once
costs are known.

Runs inside the copies of a run are folded first, in all copies. The resulting graph is folded again
until nothing repeats: one *level* after the other. On the next level, ops of kept copies are
identical only if they are from the same kept copy of runs with the same number of copies. So groups
of seven and of nine layers differ.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meshwright.schema import Graph, Op, Tensor
from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.repeats import Span, alike_spans, stretches_of
from meshwright_solver.folding.run_alignment import AlignedCopies, Stretches
from meshwright_solver.problem.op_signature import OpLooks

KEPT = 5  # two at each end, and the middle copy, which stands for all between
MIDDLE = 2  # number of the middle copy
LEAST_COPIES = KEPT + 2  # chosen: folding fewer copies saves nothing

Item = tuple[str, str]  # "op" or "tensor", its name


@dataclass(frozen=True, slots=True)
class FoldedRun:
    """Folded run: `period` ops from position `start` of the graph, and all its copies.

    ops[j], tensors[j]: the names of copy j, in the same order for all copies. Tensors are the
    outputs of its ops, and the parameters and inputs that no other ops read.
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
        """Number of copies of the graph that the kept middle copy stands for."""
        return self.copies - KEPT + 1

    @property
    def middle(self) -> range:
        """Copies of the graph that the kept middle copy stands for."""
        return range(MIDDLE, self.copies - MIDDLE)

    def number(self, kept_copy: int) -> int:
        """Copy of the graph that a kept copy is."""
        return kept_copy if kept_copy <= MIDDLE else self.copies - KEPT + kept_copy

    def kept(self, copy: int) -> int:
        """Kept copy that stands for a copy of the graph."""
        return min(copy, MIDDLE) if copy < self.copies - MIDDLE else copy - self.copies + KEPT

    def items(self, copy: int) -> Iterator[Item]:
        """Ops and tensors of a copy, in the same order for all copies."""
        for name in self.ops[copy]:
            yield "op", name
        for name in self.tensors[copy]:
            yield "tensor", name

    def renamed(self, kept_copy: int, copy: int, other: FoldedRun | None = None) -> dict[str, str]:
        """Names of a kept copy -> names of a copy of the graph, or of another identical run."""
        number, theirs = self.number(kept_copy), other or self
        names = dict(zip(self.ops[number], theirs.ops[copy], strict=True))
        names.update(zip(self.tensors[number], theirs.tensors[copy], strict=True))
        return names


@dataclass(frozen=True)
class Folding:
    """Graph, the runs folded on each level (innermost first), and the folded graph.

    The runs of a level are runs of the graph that the previous level produces.
    """

    whole: Graph
    graph: Graph
    levels: tuple[tuple[FoldedRun, ...], ...]

    @staticmethod
    def none(graph: Graph) -> Folding:
        """Folding without runs."""
        return Folding(graph, graph, ())

    @cached_property
    def owners(self) -> tuple[dict[Item, tuple[int, int]], ...]:
        """By level: item -> its run and its kept copy."""
        return tuple(
            {
                item: (number, kept_copy)
                for number, run in enumerate(runs)
                for kept_copy in range(KEPT)
                for item in run.items(run.number(kept_copy))
            }
            for runs in self.levels
        )

    @cached_property
    def stood_for(self) -> dict[Item, int]:
        """Item of the folded graph -> number of items of the whole graph that it stands for, if not
        one."""
        counts: dict[Item, int] = {}
        for runs in self.levels:
            for run in runs:
                for item in run.items(MIDDLE):
                    counts[item] = counts.get(item, 1) * run.stood_for
        return counts

    @cached_property
    def middle(self) -> tuple[dict[Item, Item], ...]:
        """By level: item of another kept copy -> the same item of the kept middle copy."""
        return tuple(
            {
                item: like
                for run in runs
                for kept_copy in range(KEPT)
                if kept_copy != MIDDLE
                for item, like in zip(
                    run.items(run.number(kept_copy)), run.items(MIDDLE), strict=True
                )
            }
            for runs in self.levels
        )

    @cached_property
    def alike(self) -> tuple[tuple[Item, ...], ...]:
        """Groups of items of the folded graph that require one common choice.

        A group has an item of a middle copy first, then the same items of the adjacent copies. The
        check is in `meshwright_solver.folding.unfold`.
        """
        groups: dict[Item, list[Item]] = {}
        items = [("op", op.name) for op in self.graph.ops]
        items += [("tensor", tensor.name) for tensor in self.graph.tensors]
        for item in items:
            first = item
            for owners, middle in zip(self.owners, self.middle, strict=True):
                if first in owners and owners[first][1] in (MIDDLE - 1, MIDDLE + 1):
                    first = middle[first]
            group = groups.setdefault(first, [first])
            if item != first:
                group.append(item)
        return tuple(tuple(group) for group in groups.values() if len(group) > 1)


@uncollected
def fold(graph: Graph, marks: Mapping[str, Hashable], *, nested: bool = True) -> Folding:
    """Folding of all runs. Ops with different marks are never identical. nested: fold inner runs
    too."""
    looks = op_looks(graph, graph.topological_order(), marks)
    levels: list[tuple[FoldedRun, ...]] = []
    remaining = graph
    while runs := _Level(remaining, looks).runs(nested):
        levels.append(tuple(runs))
        remaining, looks = _without_repeats(remaining, looks, runs)
        if not nested:
            break
    return Folding(graph, remaining, tuple(levels))


def foldings(graph: Graph, marks: Mapping[str, Hashable]) -> Iterator[Folding]:
    """Foldings of a graph, most folded first; the last one folds nothing.

    Callers use a later one if copies turn out to differ in cost.
    """
    nested = fold(graph, marks)
    yield nested
    plain = fold(graph, marks, nested=False)
    if plain.levels != nested.levels:
        yield plain
    if plain.levels:
        yield Folding.none(graph)


def op_looks(graph: Graph, order: Sequence[Op], marks: Mapping[str, Hashable]) -> IntArray:
    """Integer label of every op; ops with equal labels differ only in their inputs."""
    kinds: dict[Hashable, int] = {}
    tensors = {
        tensor.name: kinds.setdefault(Tensor.content(tensor.__dict__), len(kinds))
        for tensor in graph.tensors
    }
    numbers: dict[Hashable, int] = {}
    known, kind_of = OpLooks(), tensors.__getitem__
    looks = []
    for op in order:
        key = (
            known.of(op),
            tuple(map(kind_of, op.inputs)),
            tuple(map(kind_of, op.outputs)),
            marks.get(op.name),
        )
        looks.append(numbers.setdefault(key, len(numbers)))
    return np.array(looks, dtype=np.int64)


class _Level:
    """Innermost runs of one graph."""

    def __init__(self, graph: Graph, looks: IntArray) -> None:
        self.order = graph.topological_order()
        self.looks = looks
        self.graph = graph

    def runs(self, nested: bool) -> list[FoldedRun]:
        spans = alike_spans(self.looks, LEAST_COPIES)
        if not spans:
            return []
        self.stretches = Stretches(self.graph, self.order)
        spans = _align(self.looks, spans)
        innermost = [aligned for span in spans for aligned in self._innermost(*span, nested)]
        return [self._run(aligned) for aligned in innermost]

    def _innermost(self, first: int, length: int, period: int, nested: bool) -> list[AlignedCopies]:
        """Innermost runs in a span, in order; the span itself if it contains none."""
        inner: list[AlignedCopies] = []
        # two periods contain every inner run, at any offset; repeats longer than one period are
        # the span itself
        most = period // (LEAST_COPIES - 1)
        window = self.looks[first : first + min(length, 2 * period)]
        inside = alike_spans(window, LEAST_COPIES, most) if nested and most else []
        spans = [
            (first + start, count, short)
            for short in sorted({short for _, _, short in inside})
            for start, count in stretches_of(
                self.looks[first : first + length], short, LEAST_COPIES
            )
        ]
        for span in _align(self.looks, spans):
            inner += self._innermost(*span, nested)
        if inner:
            return _disjoint(inner)
        longest = self.stretches.longest(first, length, period, LEAST_COPIES)
        return [] if longest is None else [longest]

    def _run(self, aligned: AlignedCopies) -> FoldedRun:
        starts = range(aligned.start, aligned.stop, aligned.period)
        names = [tuple([op.name for op in self.order[s : s + aligned.period]]) for s in starts]
        return FoldedRun(aligned.start, aligned.period, tuple(names), aligned.tensors)


def _align(looks: IntArray, spans: Sequence[Span]) -> list[Span]:
    """Spans of the same blocks, shifted to begin with the same op, if that loses no copy.

    The ops before a span may match the end of a block by chance. Spans inside identical copies
    should be cut identically.
    """
    groups: dict[tuple[int, bytes], list[tuple[Span, int]]] = {}
    models: dict[tuple[int, bytes], IntArray] = {}
    for span in spans:
        first, _, period = span
        block = looks[first : first + period]
        key = (period, np.sort(block).tobytes())
        phase = _rotation(models.setdefault(key, block), block)
        if phase is not None:
            groups.setdefault(key, []).append((span, phase))
    moved: dict[Span, Span] = {}
    for (period, _), members in groups.items():
        # by phase: number of spans that can begin there without losing a copy
        votes = np.zeros(period, dtype=np.int64)
        for (_, length, _), phase in members:
            votes[(phase + np.arange(length % period + 1)) % period] += 1
        best = int(votes.argmax())
        for span, phase in members:
            first, length, _ = span
            ahead = (best - phase) % period
            if ahead <= length % period:
                moved[span] = (first + ahead, length - ahead, period)
    return [moved.get(span, span) for span in spans]


def _rotation(model: IntArray, block: IntArray) -> int | None:
    """Offset k such that the block is the model rotated by k ops; None if there is none."""
    for k in np.flatnonzero(model == block[0]).tolist():
        if (np.roll(model, -k) == block).all():
            return int(k)
    return None


def _disjoint(runs: Sequence[AlignedCopies]) -> list[AlignedCopies]:
    """Runs in order; of overlapping runs, the one that begins first."""
    disjoint: list[AlignedCopies] = []
    for run in sorted(runs, key=lambda run: run.start):
        if not disjoint or run.start >= disjoint[-1].stop:
            disjoint.append(run)
    return disjoint


def _without_repeats(
    graph: Graph, looks: IntArray, runs: Sequence[FoldedRun]
) -> tuple[Graph, IntArray]:
    """Graph without the copies that a kept copy stands for, and the labels of its ops."""
    order = graph.topological_order()
    gone = np.zeros(len(order), dtype=np.bool_)
    dropped: set[str] = set()
    renamed: dict[int, dict[str, str]] = {}
    # label of an op; in a kept copy also its number and the number of copies
    kinds = np.zeros((len(order), 3), dtype=np.int64)
    kinds[:, 0] = looks
    for run in runs:
        starts = [run.start + copy * run.period for copy in range(run.copies)]
        for kept_copy in range(KEPT):
            start = starts[run.number(kept_copy)]
            kinds[start : start + run.period, 1:] = (run.copies, kept_copy)
        gone[starts[MIDDLE + 1] : starts[-MIDDLE]] = True
        for tensors in run.tensors[MIDDLE + 1 : -MIDDLE]:
            dropped.update(tensors)
        # the last copy but one now follows the middle copy
        before, after = run.tensors[run.copies - 3], run.tensors[MIDDLE]
        for i in range(starts[-MIDDLE], starts[-MIDDLE] + run.period):
            renamed[i] = dict(zip(before, after, strict=True))
    ops = []
    for i in np.flatnonzero(~gone).tolist():
        op, names = order[i], renamed.get(i)
        if names is not None:
            inputs = tuple([names.get(name, name) for name in op.inputs])
            op = op.model_copy(update={"inputs": inputs})
        ops.append(op)
    remaining = graph.model_copy(
        update={
            "ops": tuple(ops),
            "tensors": tuple([t for t in graph.tensors if t.name not in dropped]),
        }
    )
    _, numbers = np.unique(kinds[~gone], axis=0, return_inverse=True)
    return remaining, numbers.reshape(-1).astype(np.int64)
