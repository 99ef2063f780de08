"""Canonical graphs: ops and tensors numbered by what they compute, not by their names.

Two tensors have the same number if they have the same shape and dtype, and come from the same
source or from equal ops. Equal ops have the same kind, attributes and inputs. The order of ops and
their names do not count, and sources are equal by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

from meshwright.schema import Graph, GraphError, Op
from meshwright.schema.sizes import Size, evaluate
from meshwright.stages.dropout import drops

_COMMUTATIVE = frozenset(
    {"add", "mul", "maximum", "minimum", "eq", "ne", "logical_and", "logical_or", "logical_xor"}
)
# attributes that kernels read with these defaults
_DEFAULTS: Mapping[tuple[str, str], Any] = {
    ("attention", "dropout"): 0.0,
    ("upsample", "align_corners"): False,
}


class Numbers:
    """The numbers of the ops and tensors of several graphs at the same sizes."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self._numbers: dict[Hashable, int] = {}

    def of(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def size(self, size: Size) -> Size:
        """A size in elements; an expression without a whole value stays text."""
        try:
            return evaluate(size, self.sizes)
        except GraphError:
            return size

    def attr(self, value: Any) -> Hashable:
        """An attribute with evaluated sizes."""
        if isinstance(value, (list, tuple)):
            return tuple(self.attr(item) for item in value)
        if isinstance(value, dict):
            return tuple(sorted((key, self.attr(item)) for key, item in value.items()))
        if isinstance(value, str) and any(symbol in value for symbol in self.sizes):
            return self.size(value)
        assert isinstance(value, Hashable)
        return value


class CanonicalGraph:
    """The ops of a graph that its loss depends on, in topological order, with their numbers.

    `tied` are other names of parameters.
    """

    def __init__(self, graph: Graph, numbers: Numbers, tied: Mapping[str, str]) -> None:
        assert graph.loss is not None
        self.graph = graph
        self._tied = tied
        self._numbers = numbers
        self._repeats: Counter[Hashable] = Counter()
        self._values: dict[str, int] = {}
        self.ops: dict[str, int] = {}
        self.by_name: dict[str, Op] = {}
        for op in _upstream(graph, graph.loss):
            self._number(op)
        self.loss = self._value(graph.loss)

    def _number(self, op: Op) -> None:
        inputs = [self._value(name) for name in op.inputs]
        if op.kind in _COMMUTATIVE:
            inputs.sort()
        attrs = {
            key: self._numbers.attr(value)
            for key, value in op.attrs.items()
            if (op.kind, key) not in _DEFAULTS or value != _DEFAULTS[op.kind, key]
        }
        key = (op.kind, tuple(sorted(attrs.items(), key=_first)), tuple(inputs))
        if drops(op.kind, op.attrs):  # two of them draw different elements
            self._repeats[key] += 1
        number = self._numbers.of((*key, self._repeats[key]))
        self.by_name[op.name], self.ops[op.name] = op, number
        for place, name in enumerate(op.outputs):
            self._values[name] = self._numbers.of((number, place, *self._form(name)))

    def _value(self, name: str) -> int:
        if name not in self._values:
            tensor = self.graph.tensor(name)
            role = "input" if tensor.role == "label" else tensor.role
            first = self._tied.get(name, name)
            self._values[name] = self._numbers.of(("source", role, first, *self._form(name)))
        return self._values[name]

    def _form(self, name: str) -> tuple[Hashable, ...]:
        tensor = self.graph.tensor(name)
        return tensor.dtype, tuple(self._numbers.size(size) for size in tensor.shape)


def _first(pair: tuple[str, Hashable]) -> str:
    return pair[0]


def _upstream(graph: Graph, name: str) -> list[Op]:
    """The ops that a tensor depends on, in topological order."""
    needed = {name}
    ops = []
    for op in reversed(graph.topological_order()):
        if not needed.isdisjoint(op.outputs):
            needed.update(op.inputs)
            ops.append(op)
    return ops[::-1]
