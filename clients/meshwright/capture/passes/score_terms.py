"""Terms that are added to the scores of attention, and their sum as one mask.

A term is found at some view of the scores, such as [b * h, s, t]. As a mask it has the dims of
attention, [b, h, s, t], with one element where it broadcasts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from meshwright.capture.passes.dim_groups import Factors, groups
from meshwright.capture.program import Node, Value
from meshwright.schema.graph import DType

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScoreTerm:
    """A bias, or a condition that a key is visible (`is_condition`).

    at: the shape of the scores where the term is found. dims: their dims in the order of rows and
    keys. factor: the number that the sum is multiplied by.
    """

    value: Value
    at: Shape
    dims: tuple[int, ...]
    factor: float
    is_condition: bool

    @property
    def sizes(self) -> Shape:
        """The sizes by row dim and key, with one element where the term broadcasts."""
        shape = (1,) * (len(self.at) - self.value.rank) + self.value.shape
        return tuple(shape[dim] for dim in self.dims)

    def factor_sizes(self, factors: Factors) -> Shape | None:
        """The size of each factor of the rows: all of it, or one element."""
        whole = [self.at[dim] for dim in self.dims]
        of_dims = groups(whole[:-1], factors)
        if of_dims is None:
            return None
        sizes = [1] * len(factors)
        for size, full, group in zip(self.sizes, whole, of_dims, strict=False):
            if size not in (1, full):
                return None
            for index in group if size == full else ():
                sizes[index] = factors[index]
        return tuple(sizes)


@dataclass
class MaskNodes:
    """New nodes that make masks."""

    module: str
    nodes: list[Node] = field(default_factory=list)

    def joined(self, conditions: Sequence[Value], biases: Sequence[Value]) -> Value | None:
        """The sum of the biases where every condition holds, else minus infinity."""
        visible = self._pairwise("bitwise_and", conditions)
        bias = self._pairwise("add", biases)
        if bias is None or visible is None:
            return bias if visible is None else visible
        shape = _broadcast(visible.shape, bias.shape)
        return self.add("where", [visible, bias], shape, bias.dtype, {"other": "-inf"})

    def negated(self, condition: Value) -> Value:
        return self.add("logical_not", [condition], condition.shape, "bool")

    def reshaped(self, value: Value, shape: Shape) -> Value:
        return value if value.shape == shape else self.add("reshape", [value], shape, value.dtype)

    def add(
        self,
        kind: str,
        inputs: Sequence[Value],
        shape: Shape,
        dtype: DType,
        attrs: Mapping[str, object] = MappingProxyType({}),
    ) -> Value:
        """The result of a new node, with this shape and dtype."""
        result = Value("", shape, dtype)
        self.nodes.append(Node(kind, list(inputs), [result], dict(attrs), self.module))
        return result

    def _pairwise(self, kind: str, values: Sequence[Value]) -> Value | None:
        result = values[0] if values else None
        for value in values[1:]:
            assert result is not None
            shape = _broadcast(result.shape, value.shape)
            result = self.add(kind, [result, value], shape, value.dtype)
        return result


@dataclass
class MaskBuilder:
    """Masks [b, h, s, t] from terms."""

    made: MaskNodes
    factors: Factors
    of_dims: Sequence[Sequence[int]]  # the factors of b, h and s
    keys: int

    @property
    def shape(self) -> Shape:
        """The shape of the scores."""
        return (*(math.prod(self.factors[i] for i in group) for group in self.of_dims), self.keys)

    def mask(self, terms: Sequence[ScoreTerm]) -> Value | None:
        """One mask for all terms; None without terms."""
        return self.made.joined(
            [self._arranged(term) for term in terms if term.is_condition],
            [self._scaled(term) for term in terms if not term.is_condition],
        )

    def _scaled(self, term: ScoreTerm) -> Value:
        value = self._arranged(term)
        if term.factor == 1:
            return value
        return self.made.add("mul", [value], value.shape, value.dtype, {"other": term.factor})

    def _arranged(self, term: ScoreTerm) -> Value:
        """The term with the dims of the scores."""
        value, made = term.value, self.made
        if term.at == self.shape and term.dims == tuple(range(4)):
            return value
        value = made.reshaped(value, (1,) * (len(term.at) - value.rank) + value.shape)
        if list(term.dims) != list(range(len(term.at))):
            dims = list(term.dims)
            value = made.add("transpose", [value], term.sizes, value.dtype, {"dims": dims})
        sizes = term.factor_sizes(self.factors)
        assert sizes is not None
        wide, merged = list(sizes), []
        for group in self.of_dims:
            if any(sizes[index] != 1 for index in group):
                for index in group:
                    wide[index] = self.factors[index]
            merged.append(math.prod(wide[index] for index in group))
        keys = term.sizes[-1]
        if tuple(wide) != sizes:
            value = made.reshaped(value, (*sizes, keys))
            value = made.add("expand", [value], (*wide, keys), value.dtype)
        return made.reshaped(value, (*merged, keys))


def _broadcast(left: Shape, right: Shape) -> Shape:
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    return tuple(max(pair) for pair in pairs)
