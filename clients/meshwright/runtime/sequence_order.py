"""Sequence orders on one rank: permutations between loaded order and true positions.

A rank's shard of a sequence is in the loaded order, as layouts and steps count it. Constants have
true positions, and their readers permute them into the loaded order. Ops by position on inputs and
labels, and attention that runs whole, have the whole sequence: their inputs are permuted to true
positions, and their outputs back to the loaded order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from meshwright.schema import Op, PlanError
from meshwright.schema.sequence_order import LoadedDim, SequenceOrder, zigzag
from meshwright.stages.planned_stage import PlannedStage

MASKED, ROWS = "attention", 2  # the kind of op with a causal mask, and the dim of its rows


class Turn(NamedTuple):
    """A permutation into the zigzag order of `chunks` chunks, or back to true positions."""

    size: int
    chunks: int
    is_back: bool

    @property
    def places(self) -> tuple[int, ...]:
        """The source index of each index."""
        positions = zigzag(self.size, self.chunks)
        if not self.is_back:
            return positions
        return tuple(sorted(range(self.size), key=positions.__getitem__))


Turns = Mapping[int, Turn]  # by dim


class OpOrder(NamedTuple):
    """The permutations of an op by position: `back` for its inputs, `forth` for its outputs.

    `rows` is the number of chunks of the zigzag order of a sharded causal mask.
    """

    back: tuple[Turns, ...]
    forth: tuple[Turns, ...]
    rows: int | None = None


class Ordered:
    """The sequence orders of a stage.

    The constructor raises PlanError if the plan does not state the permuted dims of an op.
    """

    def __init__(self, planned: PlannedStage, order: Sequence[SequenceOrder]) -> None:
        self._order = order
        graph = planned.graph
        self._constants = {t.name for t in graph.tensors if t.role in ("constant", "buffer")}
        for op in graph.topological_order() if order else ():
            if self._constants.issuperset(op.inputs):
                self._constants.update(op.outputs)
        self._loaded = _by_tensor(order, [sequence.loaded for sequence in order])
        self._turned = _by_tensor(order, [sequence.turned for sequence in order])
        for op in planned.order:
            is_stated = op.kind == MASKED or any(name in self._turned for name in op.outputs)
            if self._of(op) is not None and not is_stated:
                raise PlanError(
                    f"op {op.name!r} uses true positions, and the plan of an older planner does "
                    "not state the dims that it permutes. Plan again"
                )

    def loaded(self, name: str) -> Turns:
        """The permutations in which an input or label is loaded, by dim."""
        return self._loaded.get(name, {})

    def taken(self, op: Op, root: str) -> Turns:
        """The permutations of a constant for an op that reads it, by dim."""
        if root not in self._constants or self._constants.issuperset(op.outputs):
            return {}
        return self.loaded(root)

    def of(self, op: Op, *, is_whole: bool) -> OpOrder | None:
        """The permutations of an op by position; None for any other op."""
        sequence = self._of(op)
        if sequence is None:
            return None
        if op.kind != MASKED:
            inputs = [self._turned.get(name, {}) for name in op.inputs]
            return OpOrder(
                tuple(
                    {d: turn._replace(is_back=True) for d, turn in turns.items()}
                    for turns in inputs
                ),
                tuple(self._turned.get(name, {}) for name in op.outputs),
            )
        if not is_whole:
            return OpOrder((), (), sequence.chunks)
        turn = Turn(sequence.size, sequence.chunks, is_back=False)
        back: list[Turns] = [{ROWS: turn._replace(is_back=True)}] * 3
        masks: list[Turns] = [{}] * (len(op.inputs) - 3)
        return OpOrder((*back, *masks), ({ROWS: turn},))

    def _of(self, op: Op) -> SequenceOrder | None:
        return next((order for order in self._order if op.name in order.by_position), None)


def _by_tensor(
    order: Sequence[SequenceOrder], dims: Sequence[Sequence[LoadedDim]]
) -> dict[str, dict[int, Turn]]:
    turns: dict[str, dict[int, Turn]] = {}
    for sequence, dims_of in zip(order, dims, strict=True):
        for dim in dims_of:
            turn = Turn(sequence.size, sequence.chunks, is_back=False)
            turns.setdefault(dim.tensor, {})[dim.dim] = turn
    return turns
