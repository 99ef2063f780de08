"""The parts of a mask: conditions that must all be true, and biases that add up."""

from __future__ import annotations

import math
from typing import NamedTuple

from meshwright.capture.passes.dim_groups import groups, refinement
from meshwright.capture.passes.pattern import Upstream
from meshwright.capture.passes.score_terms import MaskNodes, Shape
from meshwright.capture.program import Value

_HIDDEN = -1e4  # chosen: below it, a score of a masked position has no weight


class MaskPart(NamedTuple):
    """A condition or a bias, which broadcasts with the other parts."""

    value: Value

    @property
    def is_condition(self) -> bool:
        return self.value.dtype == "bool"


class MaskParts:
    """Parts of masks. `made`: the new nodes of negations and of views of parts."""

    def __init__(self, upstream: Upstream, made: MaskNodes) -> None:
        self._upstream, self.made = upstream, made

    def of(self, mask: Value) -> list[MaskPart]:
        """The parts of a mask; the mask itself where it is none of several."""
        for kind in ("logical_and", "bitwise_and") if mask.dtype == "bool" else ("add",):
            node = self._upstream.producer(mask, kind)
            if node is not None and len(node.inputs) == 2:
                return [part for value in node.inputs for part in self.of(value)]
        return (
            self._of_negation(mask)
            or self._of_fill(mask)
            or self._of_choice(mask)
            or self._of_view(mask)
            or [MaskPart(mask)]
        )

    def _of_negation(self, mask: Value) -> list[MaskPart] | None:
        for kind in ("logical_not", "bitwise_not"):
            node = self._upstream.producer(mask, kind)
            if node is not None and node.inputs[0].dtype == "bool":
                return self._unless(node.inputs[0])
        return None

    def _unless(self, hidden: Value) -> list[MaskPart]:
        """The parts of the condition that is true where `hidden` is false."""
        for kind in ("logical_not", "bitwise_not"):
            node = self._upstream.producer(hidden, kind)
            if node is not None and node.inputs[0].dtype == "bool":
                return self.of(node.inputs[0])
        for kind in ("logical_or", "bitwise_or"):
            node = self._upstream.producer(hidden, kind)
            if node is not None and len(node.inputs) == 2:
                return [part for value in node.inputs for part in self._unless(value)]
        return [MaskPart(self.made.negated(hidden))]

    def _of_fill(self, mask: Value) -> list[MaskPart] | None:
        fill = self._upstream.producer(mask, "masked_fill")
        if fill is None or len(fill.inputs) != 2 or not is_hidden(fill.attrs["value"]):
            return None
        return [*self.of(fill.inputs[0]), *self._unless(fill.inputs[1])]

    def _of_choice(self, mask: Value) -> list[MaskPart] | None:
        where = self._upstream.producer(mask, "where")
        if where is None:
            return None
        condition, *values = where.inputs
        if is_hidden(where.attrs.get("other")):
            parts = self.of(condition)
            rest = where.attrs.get("self")
        elif is_hidden(where.attrs.get("self")):
            parts = self._unless(condition)
            rest = where.attrs.get("other")
        else:
            return None
        if values:
            return [*self.of(values[0]), *parts]
        return parts if rest == 0 else None

    def _of_view(self, mask: Value) -> list[MaskPart] | None:
        """The parts before a view, which broadcast without expands."""
        expand = self._upstream.producer(mask, "expand")
        if expand is not None and expand.inputs[0].rank <= mask.rank:
            return self.of(expand.inputs[0])
        cast = self._upstream.producer(mask, "cast")
        if cast is not None and "bool" not in (mask.dtype, cast.inputs[0].dtype):
            return [self._cast(part, mask) for part in self.of(cast.inputs[0])]
        reshape = self._upstream.producer(mask, "reshape")
        if reshape is None:
            return None
        parts = self.of(reshape.inputs[0])
        shapes = [_reshaped(part.value, reshape.inputs[0].shape, mask.shape) for part in parts]
        if len(parts) == 1 or None in shapes:
            return None
        return [
            MaskPart(self.made.reshaped(part.value, shape))
            for part, shape in zip(parts, shapes, strict=True)
            if shape is not None
        ]

    def _cast(self, part: MaskPart, like: Value) -> MaskPart:
        value = part.value
        if part.is_condition or value.dtype == like.dtype:
            return part
        attrs = {"dtype": like.dtype}
        return MaskPart(self.made.add("cast", [value], value.shape, like.dtype, attrs))


def is_hidden(fill: object) -> bool:
    """Whether a key with this score has no weight."""
    if isinstance(fill, str):
        return fill == "-inf"
    return isinstance(fill, (int, float)) and not math.isnan(fill) and fill <= _HIDDEN


def _reshaped(part: Value, before: Shape, after: Shape) -> Shape | None:
    """The shape of a part after a reshape of the mask; None where it cannot broadcast."""
    factors = refinement(before, after)
    of_before, of_after = (factors and groups(shape, factors) for shape in (before, after))
    if not factors or not of_before or not of_after:
        return None
    sizes = [1] * len(factors)
    padded = (1,) * (len(before) - part.rank) + part.shape
    for size, group in zip(padded, of_before, strict=True):
        for index in group if size != 1 else ():
            sizes[index] = factors[index]
    if any(len({sizes[i] == 1 for i in group}) > 1 for group in of_after):
        return None
    return tuple(math.prod(sizes[i] for i in group) for group in of_after)
