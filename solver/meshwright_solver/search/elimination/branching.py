"""The branching of labels at one stop of the walk.

At a step a label continues with every state of the node. At an interior it continues with every
useful choice of the block. A walk through the block alone lists these choices once for all repeats
with equal states around them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.search.elimination.blocks import Block
from meshwright_solver.search.elimination.choice_order import Inside, Stop, walk
from meshwright_solver.search.elimination.elimination_order import EliminationProgram
from meshwright_solver.search.elimination.eliminator import EliminationStep
from meshwright_solver.search.elimination.evaluated_program import Solution
from meshwright_solver.search.elimination.partial_choices import (
    LabelLevel,
    branches,
    kinds,
    undominated,
)

_INSIDE_WIDTHS = (16, 1024)  # chosen: least and most choices of a block that are listed
_REMEMBERED_NUMBERS = 40_000_000  # chosen: 320 MB of regrets


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices of an interior: the regret of each under every weight, and its row among all rows.

    lost: the least regret of a choice that is not listed, by weight; inf where all are listed.
    """

    regrets: FloatArray
    rows: IntArray
    lost: FloatArray


class Branching:
    """Branches under the weights of `solutions`.

    root: the values with which labels start. bounds: values (J, labels) -> a bound for each label.
    """

    def __init__(
        self,
        program: EliminationProgram,
        solutions: Sequence[Solution],
        root: FloatArray,
        bounds: Callable[[FloatArray], FloatArray],
    ) -> None:
        self.labels_made = 0
        self.width = 1
        self._program = program
        self._registry = program.registry
        self._extents = [node.cost.size for node in program.graph.nodes]
        self._solutions = solutions
        self._root = root
        self._bounds = bounds
        self._rows: list[IntArray] = []
        self._stops: dict[int, list[Stop]] = {}
        self._choices: dict[tuple[int, tuple[int, ...]], tuple[int, Choices]] = {}
        self._remembered_numbers = 0
        self._known_regrets: dict[tuple[int, tuple[int, ...]], FloatArray] = {}

    def stops(self) -> list[Stop]:
        """The walk through the whole graph."""
        insides = [
            Inside(block, number)
            for block in self._program.blocks
            for number in range(len(block.repeats))
        ]
        return walk([*insides, *self._program.steps], self._extents)

    def states_of(self, stop: Stop, state: int) -> list[tuple[int, int]]:
        """(node, state) of every node that a label decided at a stop."""
        if isinstance(stop.what, EliminationStep):
            return [(stop.what.node, state)]
        block = stop.what.block
        shift = block.repeats[stop.what.number].shift
        nodes = [node + shift for node in block.interior]
        return list(zip(nodes, self._rows[state].tolist(), strict=True))

    def extended(
        self, labels: LabelLevel, stop: Stop, ceilings: FloatArray
    ) -> tuple[LabelLevel, FloatArray | None]:
        """All branches within the ceilings; the least values (J, labels) of those not listed."""
        lost = None
        if isinstance(stop.what, Inside):
            parent, state, values, lost = self._inside(labels, stop, stop.what, ceilings)
        else:
            parent, state, values = self._at_step(labels, stop, stop.what, ceilings)
        next_labels = _moved(labels, stop, parent, state, values)
        self.labels_made += len(next_labels)
        return next_labels, lost

    def _at_step(
        self, labels: LabelLevel, stop: Stop, step: EliminationStep, ceilings: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        everyone = np.arange(len(labels))
        if step.decided_by is not None:
            states = self._registry.states(step.decided_by)
            return everyone, states[labels.live[:, stop.neighbour_columns[0]]], labels.values
        if step.result is None or not len(labels):
            return everyone, np.zeros(len(labels), dtype=np.int64), labels.values
        kind, arounds = _kinds_around(labels, stop)
        regrets = np.stack([self._regrets(step, around) for around in arounds])
        return branches(labels.values, regrets, kind, ceilings)

    def _inside(
        self, labels: LabelLevel, stop: Stop, inside: Inside, ceilings: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray, FloatArray | None]:
        kind, arounds = _kinds_around(labels, stop)
        choices_by_kind = [self._choices_of(inside.block, around, ceilings) for around in arounds]
        most = max(len(choices.rows) for choices in choices_by_kind)
        regrets = np.full((len(choices_by_kind), len(self._solutions), most), np.inf)
        rows = np.zeros((len(choices_by_kind), most), dtype=np.int64)
        for k, choices in enumerate(choices_by_kind):
            regrets[k, :, : len(choices.rows)] = choices.regrets
            rows[k, : len(choices.rows)] = choices.rows
        parent, place, values = branches(labels.values, regrets, kind, ceilings)
        lost = np.stack([choices.lost for choices in choices_by_kind])
        left_out = labels.values + lost[kind].T if np.isfinite(lost).any() else None
        return parent, rows[kind[parent], place], values, left_out

    def _choices_of(self, block: Block, around: tuple[int, ...], ceilings: FloatArray) -> Choices:
        least, most = _INSIDE_WIDTHS
        width = min(max(self.width, least), most)
        key = (id(block), around)
        known_width, choices = self._choices.get(key, (0, None))
        if choices is None or (known_width < width and np.isfinite(choices.lost).any()):
            choices = self._list_choices(block, around, ceilings, width)
            self._choices[key] = (width, choices)
        return choices

    def _list_choices(
        self, block: Block, around: tuple[int, ...], ceilings: FloatArray, width: int
    ) -> Choices:
        """All choices that a label can have: ceilings only fall, and values start at root."""
        if id(block) not in self._stops:
            self._stops[id(block)] = walk(block.steps, self._extents, block.outside)
        stops = self._stops[id(block)]
        nothing = np.zeros(1, dtype=np.int64)
        live = np.array([around], dtype=np.int64).reshape(1, len(around))
        labels = LabelLevel(0, self._root[:, None].copy(), live, None, nothing, nothing)
        lost = np.full(len(self._root), np.inf)
        for stop in stops:
            labels, _ = self.extended(labels, stop, ceilings)
            is_retained = self._retained(labels.values, width)
            if not is_retained.all():
                dropped = labels.values[:, ~is_retained] - self._root[:, None]
                lost = np.minimum(lost, dropped.min(axis=1))
                labels = labels.subset(np.flatnonzero(is_retained))
        place = {node: k for k, node in enumerate(block.interior)}
        first = len(self._rows)
        for label in range(len(labels)):
            row = np.empty(len(place), dtype=np.int64)
            backwards = labels.states_backwards(label)
            for stop, state in zip(reversed(stops), backwards, strict=True):
                for node, chosen in self.states_of(stop, state):
                    row[place[node]] = chosen
            self._rows.append(row)
        return Choices(
            labels.values - self._root[:, None],
            np.arange(first, len(self._rows), dtype=np.int64),
            lost,
        )

    def _retained(self, values: FloatArray, width: int) -> NDArray[np.bool_]:
        """A mask of the best bounds, and of as many labels spread from least memory to most.

        Near the limit a choice of little memory is needed, whatever its bound.
        """
        count = values.shape[1]
        is_retained = np.ones(count, dtype=np.bool_)
        if count > 2 * width:
            is_retained[:] = False
            is_retained[np.argsort(self._bounds(values), kind="stable")[:width]] = True
            spread = np.linspace(0, count - 1, width).astype(np.int64)
            is_retained[np.argsort(values[1], kind="stable")[spread]] = True
        return is_retained

    def _regrets(self, step: EliminationStep, around: tuple[int, ...]) -> FloatArray:
        """Shape (J, states); cached, since steps that share a table need the same regrets."""
        assert step.result is not None
        key = (step.result, around)
        regrets = self._known_regrets.get(key)
        if regrets is None:
            regrets = np.stack([s.regrets(step, around) for s in self._solutions])
            if self._remembered_numbers > _REMEMBERED_NUMBERS:
                self._known_regrets.clear()
                self._remembered_numbers = 0
            self._known_regrets[key] = regrets
            self._remembered_numbers += regrets.size
        return regrets


def _kinds_around(labels: LabelLevel, stop: Stop) -> tuple[IntArray, list[tuple[int, ...]]]:
    """The kind of every label, equal where the states around the stop are; and these states."""
    around = labels.live[:, stop.neighbour_columns]
    if len(labels) == 1:
        return np.zeros(1, dtype=np.int64), [tuple(around[0].tolist())]
    keys = kinds(around, stop.neighbour_extents)
    _, places, kind = np.unique(keys, return_index=True, return_inverse=True)
    return kind, [tuple(row) for row in around[places].tolist()]


def _moved(
    labels: LabelLevel, stop: Stop, parent: IntArray, state: IntArray, values: FloatArray
) -> LabelLevel:
    live = labels.live[parent]
    if isinstance(stop.what, EliminationStep):
        live = np.concatenate([live, state[:, None]], axis=1)
    if stop.drops:
        live = live[:, stop.live_columns]
    moved = LabelLevel(labels.level + 1, values, live, labels, parent, state)
    # labels can also meet after an interior: no later stop reads its choices
    if len(moved) < 2 or not (stop.drops or isinstance(stop.what, Inside)):
        return moved
    which = undominated(kinds(live, stop.live_extents), values[0], values[1])
    return moved if len(which) == len(moved) else moved.subset(which)
