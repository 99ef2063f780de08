"""Drawings are made of what a plan says of every op."""

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
    """Numbers of values, in the order in which they come."""

    def __init__(self) -> None:
        self.found: dict[H, int] = {}

    def of(self, value: H) -> int:
        return self.found.setdefault(value, len(self.found))


def drawing_of(shares: Sequence[OpShare]) -> tuple[GraphArrays, list[OpFacts]]:
    """The drawing, and what is said of every op that is drawn, by number."""
    maker = _Maker(shares)
    return maker.made(), [facts_of(share) for share in maker.ops]


@dataclass(slots=True)
class _Numbered:
    """A module by number. parent: -1 of none; first, last, parts: as of Drawing. sums, cut: of all
    in it, and the mesh axes that shard something made there."""

    module: Module
    parent: int
    first: int
    last: int = 0
    parts: list[int] = field(default_factory=list)
    sums: Sums = (0.0, 0.0, 0, 0)
    cut: set[str] = field(default_factory=set)


class _Maker:
    def __init__(self, shares: Sequence[OpShare]) -> None:
        self.shares = shares
        self.tree = tree_of(shares)
        self.modules: list[_Numbered] = []
        self.ops: list[OpShare] = []
        self.module: list[int] = []
        self.axes: Numbering[tuple[str, ...]] = Numbering()
        self.tensors: Numbering[str] = Numbering()
        self.collectives: Numbering[str] = Numbering()
        self._walk(self.tree.root, -1)

    def _walk(self, module: Module, parent: int) -> _Numbered:
        number = len(self.modules)
        made = _Numbered(module, parent, first=len(self.ops))
        self.modules.append(made)
        for part in module.parts:
            if isinstance(part, Module):
                made.parts.append(-1 - len(self.modules))
                own = self._walk(part, number)
                more, times = own.sums, max(1, len(part.copies))
                made.cut |= own.cut
            else:
                made.parts.append(len(self.ops))
                self.ops.append(part)
                self.module.append(number)
                more, times = _sums(part), 1
                made.cut |= axes_of(part)
            compute_ns, communication_ns, saved, parameters = made.sums
            made.sums = (
                compute_ns + more[0] * times,
                communication_ns + more[1] * times,
                saved + more[2] * times,
                parameters + more[3] * times,
            )
        made.last = len(self.ops)
        return made

    def made(self) -> GraphArrays:
        all_ = {(share.stage, share.own.op): k for k, share in enumerate(self.shares)}
        keys = [(share.stage, share.own.op) for share in self.ops]
        drawn = {key: k for k, key in enumerate(keys)}
        stands = self.tree.stands_for
        arrows = list(arrows_of(self.shares, self.tree))
        moves, of_arrows = self._moves(arrows)
        steps = [step for _, own in moves for step in own]
        ends = np.cumsum([0, *(len(own) for _, own in moves)])
        axes = [self.axes.of(tuple(sorted(own.cut))) for own in self.modules]
        step_axes = [self.axes.of(step.axes) for step in steps]
        step_tensor = [self.tensors.of(step.tensor) for step in steps]
        step_collective = [self.collectives.of(step.collective) for step in steps]
        tensor = [self.tensors.of(arrow.tensor) for arrow in arrows]
        return GraphArrays(
            Texts(
                modules=[own.module.id for own in self.modules],
                ops=[share.own.op for share in self.shares],
                tensors=list(self.tensors.found),
                collectives=list(self.collectives.found),
                axes=[list(own) for own in self.axes.found],
            ),
            parent=_ints([own.parent for own in self.modules]),
            first=_ints([own.first for own in self.modules]),
            last=_ints([own.last for own in self.modules]),
            copies=_ints([max(1, len(own.module.copies)) for own in self.modules]),
            ops=_ints([own.module.ops for own in self.modules]),
            compute_ns=np.array([own.sums[0] for own in self.modules], np.float64),
            communication_ns=np.array([own.sums[1] for own in self.modules], np.float64),
            saved_bytes=_ints([own.sums[2] for own in self.modules]),
            parameter_bytes=_ints([own.sums[3] for own in self.modules]),
            axes=_ints(axes),
            parts=Csr.of([own.parts for own in self.modules]),
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
        """What moves, each once, with its ns over a step; and for every arrow what does there."""
        receives: dict[Key, OpShare] = {
            (share.stage, share.own.op): share for share in self.ops if received(share.own)
        }
        numbers: dict[int, int] = {}
        moves: list[tuple[float, list[Moved]]] = []
        of_arrows: list[list[int]] = []
        for arrow in arrows:
            found = []
            for move in arrow.moves:
                if id(move) not in numbers:
                    numbers[id(move)] = len(moves)
                    moves.append((move.ns, list(moved_by(move))))
                found.append(numbers[id(move)])
            share = receives.get(arrow.reader)
            if share is not None:
                found.append(len(moves))
                moves.append((share.own.communication_ns, list(sent_to(share))))
            of_arrows.append(found)
        return moves, of_arrows


def _sums(share: OpShare) -> Sums:
    own = share.own
    return own.compute_ns, share.communication_ns, share.saved_bytes, share.parameter_bytes


def _ints(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)
