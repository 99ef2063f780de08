"""Decomposition of ops without a canonical kind into ops that have one."""

from __future__ import annotations

import operator as operators
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from meshwright.capture.aten import CONVERTERS, AtenCall, Converter, converter_of
from meshwright.capture.aten.call import arguments_by_name, result_values, torch_dtype
from meshwright.capture.aten.decomposition import decompositions
from meshwright.capture.interpreter.torch_operator import arguments_of, operator_of, shares_memory
from meshwright.capture.passes import PASSES, Pass
from meshwright.capture.program import Node, Program, Value
from meshwright.capture.symbolic_sizes import Witness
from meshwright.schema.errors import GraphError
from meshwright.schema.op_attrs import read_attrs
from meshwright.schema.sizes import evaluate

# chosen: loss functions call element-wise functions that are composed of simpler ones
DEPTH = 4


class _StillUnknown(Exception):
    """A decomposition leads to an op without a canonical kind."""


def passes_with_decomposition(whole: Collection[str] = ()) -> tuple[Pass, ...]:
    """All passes, then the decomposition of what stayed unknown; `whole` are kinds that stay."""
    return (*PASSES, partial(decompose_unknown, whole=frozenset(whole)))


def decompose_unknown(program: Program, *, whole: Collection[str] = ()) -> None:
    """Replace ops of unknown kinds by PyTorch's decompositions of them, and run the passes again.

    An op stays where its decomposition leads to an unknown op, or where its kind is in `whole`.
    """
    substitutes: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in program.nodes:
        parts = None if node.kind in whole else _decomposed(node, DEPTH)
        if parts is None or not _holds_at_all_sizes(parts, node, program.witness):
            nodes.append(node)
            continue
        nodes += parts.nodes
        substitutes.update(zip(node.outputs, parts.outputs, strict=True))
    if not substitutes:
        return
    program.nodes = nodes
    program.replace(substitutes)
    for rewrite in PASSES:
        rewrite(program)


def _broadcast_in_dim(call: AtenCall) -> None:
    source: Value = call.args["a"]
    shape = [1] * len(call.out.shape)
    for dim, size in zip(call.args["broadcast_dimensions"], source.shape, strict=True):
        shape[dim] = size
    call.op("expand", [call.step("reshape", [source], shape)])


def _as_aten(call: AtenCall, *, names: Mapping[str, str], kind: str) -> None:
    """A primitive whose arguments have other names than those of the ATen operator."""
    call.args = {names.get(key, key): value for key, value in call.args.items()}
    CONVERTERS[kind](call)


_PRIMS: Mapping[str, Converter] = {
    "broadcast_in_dim": _broadcast_in_dim,
    **{
        kind: partial(_as_aten, names={"inp": "self", "dims": "dim"}, kind=kind)
        for kind in ("sum", "prod", "var", "amax", "amin")
    },
    **{
        kind: partial(_as_aten, names={"a": "self", "b": "other"}, kind=kind)
        for kind in ("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge")
    },
}


class _Parts:
    """The nodes of a decomposed op, and the values that replace its outputs."""

    def __init__(self, node: Node, depth: int) -> None:
        self.nodes: list[Node] = []
        self.outputs: list[Value] = []
        self._module = node.module
        self._depth = depth
        self._replaced: dict[Value, Value] = {}

    def read(self, graph: torch.fx.Graph, inputs: Sequence[Value]) -> None:
        """Convert the nodes of a graph; raises _StillUnknown."""
        placeholders = iter(inputs)
        values: dict[torch.fx.Node, Any] = {}
        for node in graph.nodes:
            if node.op == "placeholder":
                values[node] = next(placeholders)
            elif node.op == "call_function":
                values[node] = self._call(node, values)
            elif node.op == "output":
                outputs = _values_of(node.args[0], values)
                self.outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
            else:
                raise _StillUnknown  # a constant, whose value the meta device does not hold

    def _call(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> Any:
        arguments = _values_of(node.args, values)
        target = node.target
        if target is operators.getitem:
            return arguments[0][arguments[1]]
        if isinstance(target, type) and issubclass(target, tuple):
            return arguments  # a named tuple of results
        if not isinstance(target, torch._ops.OpOverload):
            raise _StillUnknown
        if target._schema.is_mutable:
            return self._write(node, values)
        return self._convert(node, target.overloadpacket.__name__, values)

    def _convert(self, node: torch.fx.Node, name: str, values: Mapping[torch.fx.Node, Any]) -> Any:
        target: Any = node.target
        named = arguments_by_name(
            target, _values_of(node.args, values), _values_of(node.kwargs, values)
        )
        kind = str(target).replace(f".{target.overloadpacket.__name__}.", f".{name}.", 1)
        call = AtenCall(kind, named, result_values(node.meta.get("val")), self._module)
        primitive = _PRIMS.get(name) if target.namespace == "prims" else None
        (primitive or converter_of(target.namespace, name))(call)
        for part in call.nodes:
            self._add(part)
        replaced = [self._replaced.get(value, value) for value in call.values]
        return replaced if isinstance(node.meta["val"], (list, tuple)) else replaced[0]

    def _write(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> Any:
        """The result of a write in place, which later readers of the written tensor read."""
        target: Any = node.target
        name = target.overloadpacket.__name__
        written = node.args[0]
        if not name.endswith("_") or not isinstance(written, torch.fx.Node):
            raise _StillUnknown
        readers = [user for user in written.users if user in values]
        if _shares_memory(written) or any(map(_shares_memory, readers)):
            raise _StillUnknown
        result = values[written] = self._convert(node, name.removesuffix("_"), values)
        return result

    def _add(self, node: Node) -> None:
        """Append a node, or the parts of a node of unknown kind."""
        node.inputs = [self._replaced.get(value, value) for value in node.inputs]
        if "." not in node.kind:
            self.nodes.append(node)
            return
        parts = _decomposed(node, self._depth - 1)
        if parts is None:
            raise _StillUnknown
        self.nodes += parts.nodes
        self._replaced.update(zip(node.outputs, parts.outputs, strict=True))


def _decomposed(node: Node, depth: int) -> _Parts | None:
    """The parts of a node of unknown kind, all of canonical kinds; None where there are none."""
    operator = operator_of(node.kind) if "." in node.kind and "tensors" in node.attrs else None
    if operator is None or depth == 0:
        return None
    if not all(hasattr(torch, value.dtype) for value in node.inputs):
        return None
    attrs = read_attrs(node.attrs, {}, partial(getattr, torch))
    tensors = [
        torch.empty(value.shape, dtype=torch_dtype(value.dtype), device="meta")
        for value in node.inputs
    ]
    for graph in decompositions(operator, partial(arguments_of, operator, attrs), tensors):
        parts = _Parts(node, depth)
        try:
            parts.read(graph, node.inputs)
        except _StillUnknown:
            continue
        if _forms(parts.outputs) == _forms(node.outputs):
            return parts
    return None


def _holds_at_all_sizes(parts: _Parts, node: Node, witness: Witness) -> bool:
    """Whether the decomposition has the same fractions at other values of the symbols.

    A fraction of a size, such as the step of the angle in `hann_window`, has no symbolic form.
    """
    fractions = _fractions(parts.nodes)
    if not fractions:
        return True
    try:
        twin = _decomposed(_resized(node, witness), DEPTH)
    except GraphError:  # a size without a value at these symbols
        return False
    return twin is not None and _fractions(twin.nodes) == fractions


def _fractions(nodes: Sequence[Node]) -> list[float]:
    values = [value for node in nodes for value in node.attrs.values()]
    return [value for value in values if isinstance(value, float)]


def _resized(node: Node, witness: Witness) -> Node:
    """The node at twice the traced values of the symbols."""
    symbols = {name: 2 * prime for name, prime in witness.primes.items()}

    def resized(item: Any) -> Any:
        if isinstance(item, (list, tuple)):
            return [resized(part) for part in item]
        if isinstance(item, int) and not isinstance(item, bool):
            size = evaluate(witness.size(abs(item)), symbols)
            return size if item >= 0 else -size
        return item

    def values(before: Sequence[Value]) -> list[Value]:
        return [Value(v.name, tuple(resized(v.shape)), v.dtype, v.role) for v in before]

    attrs = {key: resized(value) for key, value in node.attrs.items()}
    return Node(node.kind, values(node.inputs), values(node.outputs), attrs, node.module)


def _shares_memory(node: torch.fx.Node) -> bool:
    """Whether a node is an argument, or a result that may share memory with one of its inputs."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return True
    return shares_memory(target)


def _forms(values: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [(v.shape, v.dtype) if isinstance(v, Value) else () for v in values]


def _values_of(item: Any, values: Mapping[torch.fx.Node, Any]) -> Any:
    if isinstance(item, torch.fx.Node):
        return values[item]
    if isinstance(item, (list, tuple)):
        return [_values_of(part, values) for part in item]
    if isinstance(item, dict):
        return {key: _values_of(part, values) for key, part in item.items()}
    return item
