"""Intermediate representation of a captured program: nodes and values at traced sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meshwright.capture.symbolic_sizes import Witness
from meshwright.schema import Graph, Op, Tensor
from meshwright.schema.errors import GraphError
from meshwright.schema.graph import DType, Role
from meshwright.schema.sizes import Size

# attrs whose integers are extents or positions and may depend on a symbol
_SIZE_ATTRS = frozenset(
    {
        *("start", "end", "step", "sizes", "other", "diagonal", "slots", "k", "classes"),
        *("value", "self", "min", "max", "shifts", "pads", "exponent"),
    }
)
# attrs whose integers are numbers in every graph
_PLAIN_ATTRS = frozenset({"kernel", "stride", "padding", "dilation", "groups"})


@dataclass(eq=False, slots=True)
class Value:
    """One tensor of the program, compared by identity. cast_of_parameter: in another dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    role: Role = "activation"
    trainable: bool = True
    cast_of_parameter: bool = False

    @property
    def is_weight(self) -> bool:
        """Whether it is a parameter, or a cast of one."""
        return self.role == "parameter" or self.cast_of_parameter

    @property
    def is_differentiable(self) -> bool:
        """Whether the dtype has gradients: a floating or a complex one."""
        return self.dtype.startswith(("float", "bfloat", "complex"))

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(eq=False, slots=True)
class Node:
    """One op of the program."""

    kind: str
    inputs: list[Value]
    outputs: list[Value]
    attrs: dict[str, Any] = field(default_factory=dict)
    module: str = ""

    @property
    def output(self) -> Value:
        return self.outputs[0]


@dataclass
class Program:
    """Nodes in execution order. A pass edits `nodes` and calls `replace` once at its end."""

    nodes: list[Node]
    sources: list[Value]
    outputs: list[Value]
    loss: Value | None = None
    witness: Witness = field(default_factory=Witness)
    notes: list[str] = field(default_factory=list)

    def producers(self) -> dict[Value, Node]:
        return {value: node for node in self.nodes for value in node.outputs}

    def readers(self) -> dict[Value, list[Node]]:
        """The nodes that read each value; a node that reads it twice appears twice."""
        readers: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                readers.setdefault(value, []).append(node)
        return readers

    def replace(self, substitutes: Mapping[Value, Value]) -> None:
        """Replace values by their substitutes in all inputs and outputs, following chains."""
        if not substitutes:
            return

        def last(value: Value) -> Value:
            while value in substitutes:
                value = substitutes[value]
            return value

        for node in self.nodes:
            node.inputs = [last(value) for value in node.inputs]
        self.outputs = [last(value) for value in self.outputs]
        self.loss = None if self.loss is None else last(self.loss)

    def insert_before(self, additions: Mapping[Node, Sequence[Node]]) -> None:
        """Insert lists of nodes before their key nodes."""
        if additions:
            self.nodes = [n for node in self.nodes for n in (*additions.get(node, ()), node)]

    def upstream(self, values: Iterable[Value]) -> Program:
        """The part of the program that computes `values`, with `values` as its outputs."""
        producers = self.producers()
        needed: set[Node] = set()
        sources: dict[Value, None] = {}
        waiting = list(values)
        outputs = list(waiting)
        while waiting:
            value = waiting.pop()
            node = producers.get(value)
            if node is None:
                sources[value] = None
            elif node not in needed:
                needed.add(node)
                waiting += node.inputs
        nodes = [node for node in self.nodes if node in needed]
        return Program(nodes, list(sources), outputs, witness=self.witness)

    def to_graph(self, *, name: str, symbols: Mapping[str, int]) -> Graph:
        """The program as a Graph; a node has the name of its first output."""
        return Graph(
            name=name,
            symbols={key: symbols[key] for key in self.witness.primes},
            tensors=tuple(
                self._tensor(value)
                for value in [*self.sources, *(v for node in self.nodes for v in node.outputs)]
            ),
            ops=tuple(self._op(node) for node in self.nodes),
            outputs=tuple(value.name for value in self.outputs),
            loss=None if self.loss is None else self.loss.name,
            notes=tuple(self.notes),
        )

    def _tensor(self, value: Value) -> Tensor:
        return Tensor(
            name=value.name,
            shape=tuple(self.witness.size(size) for size in value.shape),
            dtype=value.dtype,
            role=value.role,
            trainable=value.trainable,
        )

    def _op(self, node: Node) -> Op:
        name = node.output.name
        for key in sorted(_PLAIN_ATTRS & node.attrs.keys()):
            size = self._symbolic_attr(node.attrs[key])
            if size != node.attrs[key]:
                raise GraphError(
                    f"op {name!r}: the {key} of {node.kind!r} follows from a symbol, {size}, and a "
                    "graph has numbers there alone. Use a fixed number, or other operations"
                )
        return Op(
            name=name.removesuffix(":0") if len(node.outputs) > 1 else name,
            kind=node.kind,
            inputs=tuple(value.name for value in node.inputs),
            outputs=tuple(value.name for value in node.outputs),
            attrs={
                key: self._symbolic_attr(value) if key in _SIZE_ATTRS or "." in node.kind else value
                for key, value in node.attrs.items()
            },
            module=node.module,
        )

    def _symbolic_attr(self, attr: Any) -> Any:
        if isinstance(attr, (list, tuple)):
            return [self._symbolic_attr(item) for item in attr]
        if isinstance(attr, int) and not isinstance(attr, bool):
            return self.symbolic_size(attr)
        return attr

    def symbolic_size(self, number: int) -> Size:
        if number >= 0:
            return self.witness.size(number)
        size = self.witness.size(-number)
        return number if isinstance(size, int) else f"0-({size})"
