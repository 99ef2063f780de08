"""Builds the graph view of a plan from its op shares."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from meshwright.reports.ops import OpShare, received
from meshwright_service.plan_views.graph_view.edges import Arrow, arrows_of
from meshwright_service.plan_views.graph_view.graph_arrays import (
    DIRECTIONS,
    Csr,
    GraphArrays,
    Texts,
)
from meshwright_service.plan_views.graph_view.modules import Key, Module, tree_of
from meshwright_service.plan_views.graph_view.op_details import (
    Moved,
    OpFacts,
    axes_of,
    facts_of,
    moved_by,
    sent_to,
)

H = TypeVar("H", bound=Hashable)
Sums = tuple[float, float, int, int]  # compute and communication, ns; saved, parameters, bytes


class Numbering(Generic[H]):
    """Numbers of values, in order of first occurrence."""

    def __init__(self) -> None:
        self.numbers: dict[H, int] = {}

    def of(self, value: H) -> int:
        return self.numbers.setdefault(value, len(self.numbers))


def drawing_of(shares: Sequence[OpShare]) -> tuple[GraphArrays, list[OpFacts]]:
    """The arrays of the graph view, and the facts of every drawn op, by its number."""
    builder = _ArraysBuilder(shares)
    return builder.arrays(), [facts_of(share) for share in builder.ops]


@dataclass(slots=True)
class _ModuleNode:
    """A module with its number. parent: -1 for the root. first, last, parts: as in `GraphArrays`.
    sums: of its content. cut: the mesh axes that shard an output in it."""

    module: Module
    parent: int
    first: int
    last: int = 0
    parts: list[int] = field(default_factory=list)
    sums: Sums = (0.0, 0.0, 0, 0)
    cut: set[str] = field(default_factory=set)


class _ArraysBuilder:
    def __init__(self, shares: Sequence[OpShare]) -> None:
        self.shares = shares
        self.tree = tree_of(shares)
        self.modules: list[_ModuleNode] = []
        self.ops: list[OpShare] = []
        self.module: list[int] = []
        self.axes: Numbering[tuple[str, ...]] = Numbering()
        self.tensors: Numbering[str] = Numbering()
        self.collectives: Numbering[str] = Numbering()
        self._walk(self.tree.root, -1)

    def _walk(self, module: Module, parent: int) -> _ModuleNode:
        number = len(self.modules)
        node = _ModuleNode(module, parent, first=len(self.ops))
        self.modules.append(node)
        for part in module.parts:
            if isinstance(part, Module):
                node.parts.append(-1 - len(self.modules))
                child = self._walk(part, number)
                sums, times = child.sums, max(1, len(part.copies))
                node.cut |= child.cut
            else:
                node.parts.append(len(self.ops))
                self.ops.append(part)
                self.module.append(number)
                sums, times = _sums(part), 1
                node.cut |= axes_of(part)
            compute_ns, communication_ns, saved, parameters = node.sums
            node.sums = (
                compute_ns + sums[0] * times,
                communication_ns + sums[1] * times,
                saved + sums[2] * times,
                parameters + sums[3] * times,
            )
        node.last = len(self.ops)
        return node

    def arrays(self) -> GraphArrays:
        all_ = {(share.stage, share.own.op): k for k, share in enumerate(self.shares)}
        keys = [(share.stage, share.own.op) for share in self.ops]
        drawn = {key: k for k, key in enumerate(keys)}
        stands = self.tree.stands_for
        arrows = list(arrows_of(self.shares, self.tree))
        moves, of_arrows = self._moves(arrows)
        steps = [step for _, move_steps in moves for step in move_steps]
        ends = np.cumsum([0, *(len(move_steps) for _, move_steps in moves)])
        axes = [self.axes.of(tuple(sorted(node.cut))) for node in self.modules]
        step_axes = [self.axes.of(step.axes) for step in steps]
        step_tensor = [self.tensors.of(step.tensor) for step in steps]
        step_collective = [self.collectives.of(step.collective) for step in steps]
        tensor = [self.tensors.of(arrow.tensor) for arrow in arrows]
        return GraphArrays(
            Texts(
                modules=[node.module.id for node in self.modules],
                ops=[share.own.op for share in self.shares],
                tensors=list(self.tensors.numbers),
                collectives=list(self.collectives.numbers),
                axes=[list(names) for names in self.axes.numbers],
            ),
            parent=_ints([node.parent for node in self.modules]),
            first=_ints([node.first for node in self.modules]),
            last=_ints([node.last for node in self.modules]),
            copies=_ints([max(1, len(node.module.copies)) for node in self.modules]),
            ops=_ints([node.module.ops for node in self.modules]),
            compute_ns=np.array([node.sums[0] for node in self.modules], np.float64),
            communication_ns=np.array([node.sums[1] for node in self.modules], np.float64),
            saved_bytes=_ints([node.sums[2] for node in self.modules]),
            parameter_bytes=_ints([node.sums[3] for node in self.modules]),
            axes=_ints(axes),
            parts=Csr.of([node.parts for node in self.modules]),
            module=_ints(self.module),
            drawn=_ints([all_[key] for key in keys]),
            stage=_ints([share.stage for share in self.shares]),
            stands=_ints([drawn[stands.get(key, key)] for key in all_]),
            maker=_ints([drawn[arrow.maker] for arrow in arrows]),
            reader=_ints([drawn[arrow.reader] for arrow in arrows]),
            tensor=_ints(tensor),
            moves=Csr.of(of_arrows),
            move_ns=np.array([ns for ns, _ in moves], np.float64),
            steps=Csr(ends.astype(np.int64), np.arange(len(steps))),
            step_tensor=_ints(step_tensor),
            step_collective=_ints(step_collective),
            step_axes=_ints(step_axes),
            step_direction=_ints([DIRECTIONS.index(step.direction) for step in steps]),
            step_bytes=_ints([step.payload_bytes for step in steps]),
            step_ns=np.array([step.ns for step in steps], np.float64),
        )

    def _moves(
        self, arrows: Sequence[Arrow]
    ) -> tuple[list[tuple[float, list[Moved]]], list[list[int]]]:
        """The distinct moves with their ns over a step, and for every arrow their indices."""
        receives: dict[Key, OpShare] = {
            (share.stage, share.own.op): share for share in self.ops if received(share.own)
        }
        numbers: dict[int, int] = {}
        moves: list[tuple[float, list[Moved]]] = []
        of_arrows: list[list[int]] = []
        for arrow in arrows:
            indices = []
            for move in arrow.moves:
                if id(move) not in numbers:
                    numbers[id(move)] = len(moves)
                    moves.append((move.ns, list(moved_by(move))))
                indices.append(numbers[id(move)])
            share = receives.get(arrow.reader)
            if share is not None:
                indices.append(len(moves))
                moves.append((share.own.communication_ns, list(sent_to(share))))
            of_arrows.append(indices)
        return moves, of_arrows


def _sums(share: OpShare) -> Sums:
    op = share.own
    return op.compute_ns, share.communication_ns, share.saved_bytes, share.parameter_bytes


def _ints(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)
