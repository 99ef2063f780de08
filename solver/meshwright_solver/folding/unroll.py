"""Unrolling: expansion of one level of folding in a cost graph.

The middle copy of a run is repeated once for every copy of the graph that it stands for, with the
edges inside the copy and to the copy before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.shared_sequence import Repeated, parts_of
from meshwright_solver.folding.fold import KEPT, MIDDLE, FoldedRun, Item
from meshwright_solver.search.core.cost_graph import CostGraph, CostNode, RepeatedEdges

Owner = tuple[int, int]  # run, kept copy
Span = tuple[int, int, int]  # first node, nodes, period


class NotAlikeError(Exception):
    """The copies in the middle of a run differ in states or costs."""


class Unrolled:
    """Cost graph of a level, from the graph of the next level, in which runs have kept copies only.

    slots[run][kept]: nodes of the next level. places[run][copy]: nodes of this level, in the same
    order. kept_at: by node of the next level, its node in this one. origin: by node of this level,
    the node of the next level that it repeats.
    """

    def __init__(
        self,
        runs: Sequence[FoldedRun],
        owners: Mapping[Item, Owner],
        folded: CostGraph,
        items: Sequence[Item],
        states: Sequence[Any],
    ) -> None:
        """items, states: by node of the next level."""
        self.runs = runs
        self.folded = folded
        self._items = items
        self._owner = [owners.get(item) for item in items]
        self.slots: list[list[list[int]]] = [[[] for _ in range(KEPT)] for _ in runs]
        # by node of the next level: its place in its copy
        self._index: IntArray = np.zeros(len(items), dtype=np.int64)
        for node, owner in enumerate(self._owner):
            if owner is not None:
                slot = self.slots[owner[0]][owner[1]]
                self._index[node] = len(slot)
                slot.append(node)
        self._check_alike(states)
        self.places: list[list[list[int]]] = [[[] for _ in run.ops] for run in runs]
        self.kept_at: IntArray = np.empty(len(items), dtype=np.int64)
        origin: list[int] = []
        spans = self._place(origin)
        self.origin: IntArray = np.array(origin, dtype=np.int64)
        self.graph = CostGraph(
            _repeat_nodes(folded.nodes, self.origin),
            self._edges(),
            folded.memory_limit_bytes,
            (*self._moved_spans(), *spans),
        )

    def items(self) -> list[Item]:
        """Item of every node of this level."""
        items = [self._items[node] for node in self.origin.tolist()]
        for run, places in zip(self.runs, self.places, strict=True):
            for copy in run.middle[1:]:
                names = dict(zip(run.items(MIDDLE), run.items(copy), strict=True))
                for node in places[copy]:
                    items[node] = names[items[node]]
        return items

    def _check_alike(self, states: Sequence[Any]) -> None:
        nodes = self.folded.nodes
        for slots in self.slots:
            first = slots[MIDDLE]
            for kept_copy in (MIDDLE - 1, MIDDLE + 1):
                if len(slots[kept_copy]) != len(first):
                    raise NotAlikeError
                for a, b in zip(first, slots[kept_copy], strict=True):
                    same = nodes[a].cost is nodes[b].cost and nodes[a].memory is nodes[b].memory
                    if not same or states[a] is not states[b]:
                        raise NotAlikeError

    def _place(self, origin: list[int]) -> list[Span]:
        """Assign places to all nodes, and return the spans of identical copies."""
        spans: list[Span] = []
        done: set[int] = set()
        for node, owner in enumerate(self._owner):
            if owner is not None:
                number, kept_copy = owner
                run, places = self.runs[number], self.places[number]
                if kept_copy > MIDDLE and number not in done:
                    done.add(number)
                    middle = self.slots[number][MIDDLE]
                    for copy in run.middle[1:]:
                        places[copy] += range(len(origin), len(origin) + len(middle))
                        origin += middle
                    # the copies at positions 1 and n - 2 are identical too
                    start = places[MIDDLE][0] - len(middle)
                    spans.append((start, len(middle) * (run.copies - 2), len(middle)))
                places[run.number(kept_copy)].append(len(origin))
            self.kept_at[node] = len(origin)
            origin.append(node)
        return spans

    def _moved_spans(self) -> list[Span]:
        """Spans of the next level, expanded to all copies."""
        spans = []
        ends = [*self.kept_at.tolist(), len(self.origin)]
        for first, count, period in self.folded.spans or ():
            start, stop = ends[first], ends[first + count]
            spans.append((start, stop - start, (stop - start) // (count // period)))
        return spans

    def _edges(self) -> RepeatedEdges:
        """Copies of every edge of the next level, in order."""
        ends = np.stack(self.folded.ends)
        counts = np.ones(ends.shape[1], dtype=np.int64)
        single: list[tuple[int, int]] = []
        repeated: dict[tuple[int, int, int], list[int]] = {}
        for edge, (tail, head) in enumerate(ends.T.tolist()):
            repeat = self._repeats(tail, head)
            if repeat is None:
                single.append(self._single_edge(tail, head))
            else:
                repeated.setdefault(repeat, []).append(edge)
                counts[edge] = len(self.runs[repeat[0]].middle)
        copied_ends = np.empty((2, int(counts.sum())), dtype=np.int64)
        starts = np.cumsum(counts) - counts
        is_single = np.ones(len(counts), dtype=np.bool_)
        for (number, *back), edges in repeated.items():
            is_single[edges] = False
            places = starts[edges] + np.arange(len(self.runs[number].middle))[:, None]
            # the copies next to the middle copies are identical too
            alike = np.array(self.places[number][1:-1], dtype=np.int64)
            for side, offset in enumerate(back):
                copies = alike[MIDDLE - 1 - offset :][: len(places)]
                copied_ends[side, places] = copies[:, self._index[ends[side, edges]]]
        copied_ends[:, starts[is_single]] = np.array(single, dtype=np.int64).reshape(-1, 2).T
        parts, numbers = parts_of(self.folded.edges)
        return RepeatedEdges(parts, np.repeat(numbers, counts), copied_ends[0], copied_ends[1])

    def _repeats(self, tail: int, head: int) -> tuple[int, int, int] | None:
        """Run of an edge in a middle copy, and the offset of each end in copies; None for a single
        edge."""
        a, b = self._owner[tail], self._owner[head]
        if a is None and b is None:
            return None
        if a is None or b is None or a[0] != b[0]:
            if any(owner is not None and owner[1] not in (0, KEPT - 1) for owner in (a, b)):
                raise NotAlikeError
            return None
        kept_copy = max(a[1], b[1])
        back = kept_copy - a[1], kept_copy - b[1]
        if max(back) > 1:
            raise NotAlikeError
        return (a[0], *back) if kept_copy == MIDDLE else None

    def _single_edge(self, tail: int, head: int) -> tuple[int, int]:
        """Ends of an edge without copies.

        An edge from the middle copy to a later kept copy begins at the last copy that the middle
        copy stands for.
        """
        nodes = [int(self.kept_at[tail]), int(self.kept_at[head])]
        owners = self._owner[tail], self._owner[head]
        for side, (owner, other) in enumerate((owners, owners[::-1])):
            if (
                owner is not None
                and other is not None
                and owner[0] == other[0]
                and owner[1] == MIDDLE
            ):
                last = self.runs[owner[0]].middle[-1]
                nodes[side] = self.places[owner[0]][last][int(self._index[(tail, head)[side]])]
        return nodes[0], nodes[1]


def _repeat_nodes(nodes: Sequence[CostNode], origin: IntArray) -> Repeated[CostNode]:
    parts, numbers = parts_of(nodes)
    return Repeated(parts, numbers[origin])
