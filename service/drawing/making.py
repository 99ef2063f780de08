"""Drawings are made of what a plan says of every op."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np

from meshwright.inspecting.ops import OpShare, received
from service.drawing.arrows import Arrow, arrows_of
from service.drawing.drawing import DIRECTIONS, Csr, Drawing, Texts
from service.drawing.facts import Moved, OpFacts, axes_of, facts_of, moved_by, sent_to
from service.drawing.modules import Key, Module, tree_of

H = TypeVar("H", bound=Hashable)
Sums = tuple[float, float, int, int]  # compute and communication, ns; saved, parameters, bytes


class Numbers(Generic[H]):
    """Numbers of values, in the order in which they come."""

    def __init__(self) -> None:
        self.found: dict[H, int] = {}

    def of(self, value: H) -> int:
        return self.found.setdefault(value, len(self.found))


def drawing_of(shares: Sequence[OpShare]) -> tuple[Drawing, list[OpFacts]]:
    """The drawing, and what is said of every op that is drawn, by number."""
    maker = _Maker(shares)
    return maker.made(), [facts_of(share) for share in maker.ops]


class _Maker:
    def __init__(self, shares: Sequence[OpShare]) -> None:
        self.shares = shares
        self.tree = tree_of(shares)
        self.modules: list[Module] = []
        self.parent: list[int] = []
        self.parts: list[list[int]] = []
        self.spans: list[tuple[int, int]] = []
        self.sums: list[Sums] = []
        self.cut: list[frozenset[str]] = []
        self.ops: list[OpShare] = []
        self.module: list[int] = []
        self.axes: Numbers[tuple[str, ...]] = Numbers()
        self.tensors: Numbers[str] = Numbers()
        self.collectives: Numbers[str] = Numbers()
        self._walk(self.tree.root, -1)

    def _walk(self, module: Module, parent: int) -> int:
        number = len(self.modules)
        self.modules.append(module)
        self.parent.append(parent)
        self.parts.append([])
        self.spans.append((0, 0))
        self.sums.append((0.0, 0.0, 0, 0))
        self.cut.append(frozenset())
        begun = len(self.ops)
        sums: Sums = (0.0, 0.0, 0, 0)
        cut: set[str] = set()
        for part in module.parts:
            if isinstance(part, Module):
                own = self._walk(part, number)
                self.parts[number].append(-1 - own)
                more, times = self.sums[own], max(1, len(part.copies))
                cut |= self.cut[own]
            else:
                self.parts[number].append(len(self.ops))
                self.ops.append(part)
                self.module.append(number)
                more, times = _sums(part), 1
                cut |= axes_of(part)
            sums = (
                sums[0] + more[0] * times,
                sums[1] + more[1] * times,
                sums[2] + more[2] * times,
                sums[3] + more[3] * times,
            )
        self.spans[number] = begun, len(self.ops)
        self.sums[number], self.cut[number] = sums, frozenset(cut)
        return number

    def made(self) -> Drawing:
        all_ = {(share.stage, share.own.op): k for k, share in enumerate(self.shares)}
        keys = [(share.stage, share.own.op) for share in self.ops]
        drawn = {key: k for k, key in enumerate(keys)}
        stands = self.tree.stands_for
        arrows = list(arrows_of(self.shares, self.tree))
        moves, of_arrows = self._moves(arrows)
        steps = [step for _, own in moves for step in own]
        ends = np.cumsum([0, *(len(own) for _, own in moves)])
        first, last = np.array(self.spans, np.int64).reshape(-1, 2).T.copy()
        axes = [self.axes.of(tuple(sorted(cut))) for cut in self.cut]
        step_axes = [self.axes.of(step.axes) for step in steps]
        step_tensor = [self.tensors.of(step.tensor) for step in steps]
        step_collective = [self.collectives.of(step.collective) for step in steps]
        tensor = [self.tensors.of(arrow.tensor) for arrow in arrows]
        return Drawing(
            Texts(
                modules=[module.id for module in self.modules],
                ops=[share.own.op for share in self.shares],
                tensors=list(self.tensors.found),
                collectives=list(self.collectives.found),
                axes=[list(own) for own in self.axes.found],
            ),
            parent=_ints(self.parent),
            first=first,
            last=last,
            copies=_ints([max(1, len(module.copies)) for module in self.modules]),
            ops=_ints([module.ops for module in self.modules]),
            compute_ns=np.array([own[0] for own in self.sums], np.float64),
            communication_ns=np.array([own[1] for own in self.sums], np.float64),
            saved_bytes=_ints([own[2] for own in self.sums]),
            parameter_bytes=_ints([own[3] for own in self.sums]),
            axes=_ints(axes),
            parts=Csr.of(self.parts),
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
