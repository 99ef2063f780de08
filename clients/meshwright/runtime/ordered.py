"""The order in which sequences are loaded, as one rank meets it.

What a rank holds of a sequence is in the loaded order, as layouts and steps count it. What is made
of nothing is known by true positions, and taken in the order where anything else reads it. Ops by
position that are made of data alone, and attention that is run whole, have their sequence whole:
they are given it by true positions, and what they make goes back into the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from meshwright.runtime.stage import PlannedStage
from meshwright.schema import Op, PlanError
from meshwright.schema.sequence_order import LoadedDim, SequenceOrder, zigzag

MASKED, ROWS = "attention", 2  # the kind of op, and the dim of its rows and keys


class Turn(NamedTuple):
    """Into the order of so many chunks, or back to true positions."""

    size: int
    chunks: int
    is_back: bool

    @property
    def places(self) -> tuple[int, ...]:
        """Where each index comes from."""
        positions = zigzag(self.size, self.chunks)
        if not self.is_back:
            return positions
        return tuple(sorted(range(self.size), key=positions.__getitem__))


Turns = Mapping[int, Turn]  # by dim


class OpOrder(NamedTuple):
    """What an op by position does first with its inputs, and last with its outputs. rows: of a
    causal mask of parts, how many chunks of positions they are loaded in."""

    back: tuple[Turns, ...]
    forth: tuple[Turns, ...]
    rows: int | None = None


class Ordered:
    """Of a stage. PlanError where the plan does not say what its ops by position turn."""

    def __init__(self, planned: PlannedStage, order: Sequence[SequenceOrder]) -> None:
        self._order = order
        graph = planned.graph
        self._constants = {t.name for t in graph.tensors if t.role in ("constant", "buffer")}
        for op in graph.topological_order() if order else ():
            if self._constants.issuperset(op.inputs):
                self._constants.update(op.outputs)
        self._loaded = _by_tensor(order, [own.loaded for own in order])
        self._turned = _by_tensor(order, [own.turned for own in order])
        for op in planned.order:
            is_said = op.kind == MASKED or any(name in self._turned for name in op.outputs)
            if self._of(op) is not None and not is_said:
                raise PlanError(
                    f"op {op.name!r} goes by true positions, and the plan of an older planner does "
                    "not say which dims it turns; plan again"
                )

    def loaded(self, name: str) -> Turns:
        """How an input or label is loaded."""
        return self._loaded.get(name, {})

    def taken(self, op: Op, root: str) -> Turns:
        """How an op takes what is known by true positions."""
        if root not in self._constants or self._constants.issuperset(op.outputs):
            return {}
        return self.loaded(root)

    def of(self, op: Op, *, is_whole: bool) -> OpOrder | None:
        """What an op by position does; None where it takes what comes, as it comes."""
        own = self._of(op)
        if own is None:
            return None
        if op.kind != MASKED:
            given = [self._turned.get(name, {}) for name in op.inputs]
            return OpOrder(
                tuple({d: own._replace(is_back=True) for d, own in one.items()} for one in given),
                tuple(self._turned.get(name, {}) for name in op.outputs),
            )
        if not is_whole:
            return OpOrder((), (), own.chunks)
        turn = Turn(own.size, own.chunks, is_back=False)
        back: list[Turns] = [{ROWS: turn._replace(is_back=True)}] * 3
        masks: list[Turns] = [{}] * (len(op.inputs) - 3)
        return OpOrder((*back, *masks), ({ROWS: turn},))

    def _of(self, op: Op) -> SequenceOrder | None:
        return next((own for own in self._order if op.name in own.by_position), None)


def _by_tensor(
    order: Sequence[SequenceOrder], dims: Sequence[Sequence[LoadedDim]]
) -> dict[str, dict[int, Turn]]:
    found: dict[str, dict[int, Turn]] = {}
    for own, dims_of in zip(order, dims, strict=True):
        for dim in dims_of:
            turn = Turn(own.size, own.chunks, is_back=False)
            found.setdefault(dim.tensor, {})[dim.dim] = turn
    return found
