"""Terms that are added to the scores of attention, and their sum as one mask.

A term is found at some view of the scores, such as [b * h, s, t]. As a mask it has the dims of
attention, [b, h, s, t], with one element where it broadcasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from meshwright.capture.passes.dim_groups import Factors, groups
from meshwright.capture.program import Node, Value

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
class MaskBuilder:
    """Masks [b, h, s, t] from terms, with the nodes that make them."""

    module: str
    factors: Factors
    of_dims: Sequence[Sequence[int]]  # the factors of b, h and s
    keys: int
    nodes: list[Node] = field(default_factory=list)

    @property
    def shape(self) -> Shape:
        """The shape of the scores."""
        sizes = []
        for group in self.of_dims:
            size = 1
            for index in group:
                size *= self.factors[index]
            sizes.append(size)
        return (*sizes, self.keys)

    def mask(self, terms: Sequence[ScoreTerm]) -> Value | None:
        """The sum of the biases where every condition holds, else minus infinity."""
        conditions = [self._arranged(term) for term in terms if term.is_condition]
        biases = [self._scaled(term) for term in terms if not term.is_condition]
        visible = self._joined("bitwise_and", conditions)
        bias = self._joined("add", biases)
        if bias is None or visible is None:
            return bias if visible is None else visible
        shape = _broadcast(visible.shape, bias.shape)
        return self._add("where", [visible, bias], shape, bias, other="-inf")

    def _joined(self, kind: str, values: Sequence[Value]) -> Value | None:
        result = values[0] if values else None
        for value in values[1:]:
            assert result is not None
            result = self._add(kind, [result, value], _broadcast(result.shape, value.shape), value)
        return result

    def _scaled(self, term: ScoreTerm) -> Value:
        value = self._arranged(term)
        if term.factor == 1:
            return value
        return self._add("mul", [value], value.shape, value, other=term.factor)

    def _arranged(self, term: ScoreTerm) -> Value:
        """The term with the dims of the scores."""
        value = term.value
        if term.at == self.shape and term.dims == tuple(range(4)):
            return value
        padded = (1,) * (len(term.at) - value.rank) + value.shape
        value = self._reshaped(value, padded)
        if list(term.dims) != list(range(len(term.at))):
            value = self._add("transpose", [value], term.sizes, value, dims=list(term.dims))
        sizes = term.factor_sizes(self.factors)
        assert sizes is not None
        wide, merged = list(sizes), []
        for group in self.of_dims:
            if any(sizes[index] != 1 for index in group):
                for index in group:
                    wide[index] = self.factors[index]
            merged.append(_product(wide[index] for index in group))
        keys = term.sizes[-1]
        if tuple(wide) != sizes:
            value = self._reshaped(value, (*sizes, keys))
            value = self._add("expand", [value], (*wide, keys), value)
        return self._reshaped(value, (*merged, keys))

    def _reshaped(self, value: Value, shape: Shape) -> Value:
        return value if value.shape == shape else self._add("reshape", [value], shape, value)

    def _add(
        self, kind: str, inputs: Sequence[Value], shape: Shape, like: Value, **attrs: object
    ) -> Value:
        result = Value("", shape, like.dtype)
        self.nodes.append(Node(kind, list(inputs), [result], attrs, self.module))
        return result


def _product(sizes: object) -> int:
    result = 1
    for size in sizes:  # type: ignore[attr-defined]
        result *= size
    return result


def _broadcast(left: Shape, right: Shape) -> Shape:
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    return tuple(max(pair) for pair in pairs)
