"""Lowering of complex numbers to pairs of real ones.

Rotary embeddings are often products of complex numbers:

    polar(r, angle)       -> r cos(angle), r sin(angle)
    view_as_complex(x)    -> x[..., 0], x[..., 1]
    (a + ib) (c + id)     -> ac - bd, ad + bc
    view_as_real(a + ib)  -> stack(a, b)

A program with another op on complex numbers stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from meshwright.capture.program import Node, Program, Value
from meshwright.schema.graph import DType

Pair = tuple[Value, Value]

_FROM_REAL = frozenset(
    {"aten.view_as_complex.default", "aten.polar.default", "aten.complex.default"}
)
_TO_REAL = frozenset({"aten.view_as_real.default", "aten.real.default", "aten.imag.default"})
# ops that move elements, and the same op on both parts
_MOVES = frozenset(
    {"reshape", "transpose", "expand", "slice", "concat", "stack", "split", "index", "index_select"}
)
_REAL_OF: dict[str, DType] = {"complex64": "float32", "complex128": "float64"}


def lower_complex_numbers(program: Program) -> None:
    """Replace every complex value by its real and its imaginary part."""
    values = {v for node in program.nodes for v in (*node.inputs, *node.outputs)}
    if not any(_is_complex(value) for value in values):
        return
    ends = (*program.sources, *program.outputs)
    if any(map(_is_complex, ends)) or not all(map(_is_supported, program.nodes)):
        return
    lowering = _ComplexLowering()
    for node in program.nodes:
        lowering.visit(node)
    program.nodes = lowering.nodes


def _is_complex(value: Value) -> bool:
    return value.dtype in _REAL_OF


def _is_supported(node: Node) -> bool:
    has_complex_input = any(map(_is_complex, node.inputs))
    if not has_complex_input and not any(map(_is_complex, node.outputs)):
        return True
    if node.kind in _FROM_REAL:
        return not has_complex_input
    if node.kind in ("concat", "stack"):
        return all(map(_is_complex, node.inputs))
    if node.kind in ("index", "index_select"):
        return not any(map(_is_complex, node.inputs[1:]))
    if node.kind in ("mul", "div") and len(node.inputs) == 1:
        return True
    if node.kind in ("mul", "add", "sub"):
        return len(node.inputs) == 2
    return node.kind in _TO_REAL or node.kind in _MOVES


@dataclass
class _ComplexLowering:
    nodes: list[Node] = field(default_factory=list)
    producers: dict[Value, Node] = field(default_factory=dict)
    pairs: dict[Value, Pair] = field(default_factory=dict)

    def visit(self, node: Node) -> None:
        if not any(map(_is_complex, (*node.inputs, *node.outputs))):
            self._append(node)
        elif node.kind in _FROM_REAL:
            self.pairs[node.output] = self._from_real(node)
        elif node.kind in _TO_REAL:
            self._to_real(node)
        elif node.kind == "mul" and len(node.inputs) == 2:
            self.pairs[node.output] = self._product(node)
        elif node.kind in ("add", "sub"):
            self.pairs[node.output] = self._sum(node)
        else:
            self._move(node)

    def _append(self, node: Node) -> None:
        self.nodes.append(node)
        self.producers.update((value, node) for value in node.outputs)

    def _step(self, kind: str, inputs: list[Value], node: Node, **attrs: object) -> Value:
        """A new real value in the shape of the node's output."""
        result = Value("", node.output.shape, _real_dtype(node.output))
        self._append(Node(kind, inputs, [result], attrs, node.module))
        return result

    def _from_real(self, node: Node) -> Pair:
        first, *rest = node.inputs
        if node.kind == "aten.complex.default":
            return first, rest[0]
        if node.kind == "aten.polar.default":
            cosine, sine = (self._step(kind, [rest[0]], node) for kind in ("cos", "sin"))
            length = self.producers.get(first)
            if length is not None and length.kind == "full" and length.attrs["value"] == 1:
                return cosine, sine
            return self._step("mul", [first, cosine], node), self._step("mul", [first, sine], node)
        return self._part(node, first, 0), self._part(node, first, 1)

    def _part(self, node: Node, x: Value, place: int) -> Value:
        """x[..., place] of pairs in the last dim."""
        dim = x.rank - 1
        row = Value("", (*x.shape[:-1], 1), x.dtype)
        attrs = {"dim": dim, "start": place, "end": place + 1, "step": 1}
        self._append(Node("slice", [x], [row], attrs, node.module))
        return self._step("reshape", [row], node)

    def _to_real(self, node: Node) -> None:
        parts = self.pairs[node.inputs[0]]
        if node.kind == "aten.view_as_real.default":
            attrs = {"dim": node.output.rank - 1}
            self._append(Node("stack", list(parts), node.outputs, attrs, node.module))
        else:
            part = parts[0 if node.kind == "aten.real.default" else 1]
            self._append(Node("reshape", [part], node.outputs, {}, node.module))

    def _product(self, node: Node) -> Pair:
        left, right = node.inputs
        if not _is_complex(left) or not _is_complex(right):
            parts, factor = (left, right) if _is_complex(left) else (right, left)
            a, b = self.pairs[parts]
            return self._step("mul", [a, factor], node), self._step("mul", [b, factor], node)
        (a, b), (c, d) = self.pairs[left], self.pairs[right]
        ac, bd, ad, bc = (
            self._step("mul", list(factors), node) for factors in ((a, c), (b, d), (a, d), (b, c))
        )
        return self._step("sub", [ac, bd], node), self._step("add", [ad, bc], node)

    def _sum(self, node: Node) -> Pair:
        if not all(map(_is_complex, node.inputs)):
            left, right = node.inputs
            parts, real = (left, right) if _is_complex(left) else (right, left)
            a, b = self.pairs[parts]
            if node.kind == "add":
                return self._step("add", [a, real], node), self._step("expand", [b], node)
            if parts is left:
                return self._step("sub", [a, real], node), self._step("expand", [b], node)
            negated = self._step("expand", [self._step("neg", [b], node)], node)
            return self._step("sub", [real, a], node), negated
        (a, b), (c, d) = (self.pairs[value] for value in node.inputs)
        return self._step(node.kind, [a, c], node), self._step(node.kind, [b, d], node)

    def _move(self, node: Node) -> None:
        """The same op on both parts: moves, and products with a real number."""
        sides: list[list[Value]] = []
        for side in (0, 1):
            inputs = [self.pairs[v][side] if _is_complex(v) else v for v in node.inputs]
            outputs = [Value("", v.shape, _real_dtype(v)) for v in node.outputs]
            self._append(Node(node.kind, inputs, outputs, dict(node.attrs), node.module))
            sides.append(outputs)
        self.pairs.update(zip(node.outputs, zip(*sides, strict=True), strict=True))


def _real_dtype(value: Value) -> DType:
    return _REAL_OF.get(value.dtype, value.dtype)
