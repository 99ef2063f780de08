"""torch.export's graph -> Program: calls converted, module paths kept, in-place writes undone."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.overrides import TorchFunctionMode

from meshwright.capture.aten import CONVERTERS, Call, dtype_name
from meshwright.capture.program import Node, Program, Value
from meshwright.capture.witness import Witness
from meshwright.schema.errors import GraphError
from meshwright.schema.graph import Role

_ROLES: Mapping[InputKind, Role] = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
    InputKind.USER_INPUT: "input",
}
_INLINED = frozenset(
    {"wrap_with_set_grad_enabled", "wrap_with_autocast", "tag_activation_checkpoint"}
)
_DROPPED = frozenset({"_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_size"})
_COMMUNICATE = frozenset({"_c10d_functional", "_c10d_functional_autograd", "c10d", "_dtensor"})
_VIEW_KINDS = frozenset({"reshape", "transpose", "expand", "slice", "split"})


class _NumbersAsOps(TorchFunctionMode):
    """Tensors that torch would make of the program's own numbers: on meta they lose the numbers.

    A tensor of one number is `full`; places in a row, x[:, [3, 4]], are a slice.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        given = dict(kwargs or {})
        if func is torch.tensor and len(args) == 1 and isinstance(args[0], (bool, int, float)):
            given.pop("requires_grad", None)
            return torch.full((), args[0], **given)
        if func is torch.Tensor.__getitem__:
            args = (args[0], _without_lists(args[1]))
        return func(*args, **given)


def _without_lists(index: Any) -> Any:
    """The index with its one list as a slice, where that says the same."""
    parts = index if isinstance(index, tuple) else (index,)
    lists = [part for part in parts if isinstance(part, list)]
    if len(lists) != 1 or any(isinstance(part, (int, torch.Tensor)) for part in parts):
        return index
    places = lists[0]
    if not places or any(type(p) is not int for p in places):
        return index
    first, last = places[0], places[-1]
    if places != list(range(first, last + 1)) or (first < 0 <= last):
        return index
    run = slice(first, None if last == -1 else last + 1)
    return tuple(run if isinstance(part, list) else part for part in parts)


class _WrittenView(Exception):
    """A tensor is written in place while a view of it lives: only torch's own pass undoes that."""


def export_program(
    module: torch.nn.Module,
    arguments: Mapping[str, Any] | Sequence[Any],
    *,
    witness: Witness,
) -> Program:
    """Trace one forward pass without running it; the first result is the loss if it is a scalar."""
    positional = () if isinstance(arguments, Mapping) else tuple(arguments)
    named = dict(arguments) if isinstance(arguments, Mapping) else {}
    with warnings.catch_warnings():
        # torch warns of its own deprecations while it traces
        warnings.simplefilter("ignore")
        # a forward that makes tensors names no device, as a rule
        with torch.device("meta"), _NumbersAsOps():
            exported = torch.export.export(module, positional, named, strict=False)
        try:
            return _Reader(module, exported, witness).read()
        except _WrittenView:
            return _Reader(module, exported.run_decompositions({}), witness).read()


@dataclass
class _Reader:
    module: torch.nn.Module
    exported: torch.export.ExportedProgram
    witness: Witness
    nodes: list[Node] = field(default_factory=list)
    sources: list[Value] = field(default_factory=list)
    makers: dict[Value, Node] = field(default_factory=dict)

    def read(self) -> Program:
        values: dict[torch.fx.Node, Any] = {}
        signature = self.exported.graph_signature
        specs = {spec.arg.name: spec for spec in signature.input_specs}
        names = _parameter_names(self.module)
        for node in self.exported.graph.nodes:
            if node.op == "placeholder":
                values[node] = self._source(node, specs[node.name], names)
        self._walk(self.exported.graph_module, values, "")
        kept = [
            spec.arg.name
            for spec in signature.output_specs
            if spec.kind is OutputKind.USER_OUTPUT and hasattr(spec.arg, "name")
        ]
        by_name = {node.name: value for node, value in values.items()}
        outputs = [value for name in kept if isinstance(value := by_name.get(name), Value)]
        if not outputs:
            raise GraphError("the module's forward returns no tensor; return the loss")
        loss = outputs[0] if outputs[0].shape == () else None
        return Program(
            self.nodes, self.sources, [loss] if loss else outputs, loss, witness=self.witness
        )

    def _source(self, node: torch.fx.Node, spec: Any, names: Mapping[str, str]) -> Value | None:
        tensor = node.meta.get("val")
        if not isinstance(tensor, torch.Tensor):
            return None
        role = _ROLES.get(spec.kind, "constant")
        target = spec.target or node.name
        name = names.get(target, target)
        tied = next((v for v in self.sources if v.name == name), None)
        if tied is not None:
            return tied
        trainable = role == "parameter" and self.module.get_parameter(target).requires_grad
        value = Value(
            name,
            tuple(tensor.shape),
            dtype_name(tensor.dtype),
            role,
            trainable if role == "parameter" else True,
        )
        self.sources.append(value)
        return value

    def _walk(
        self, graph_module: torch.fx.GraphModule, values: dict[torch.fx.Node, Any], path: str
    ) -> Any:
        """Convert the nodes of one (sub)graph; what its output node returns."""
        for node in graph_module.graph.nodes:
            if node.op == "get_attr":
                values[node] = self._attribute(graph_module, str(node.target))
            elif node.op == "call_function":
                values[node] = self._call(node, values, path)
            elif node.op == "output":
                return _substituted(node.args[0], values)
        return None

    def _attribute(self, graph_module: torch.fx.GraphModule, name: str) -> Any:
        found: Any = graph_module
        for part in name.split("."):
            found = getattr(found, part)
        if not isinstance(found, torch.Tensor):
            return found
        value = Value(name, tuple(found.shape), dtype_name(found.dtype), "constant")
        self.sources.append(value)
        return value

    def _call(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any], path: str) -> Any:
        arguments = _substituted(node.args, values)
        name = getattr(node.target, "__name__", str(node.target))
        if name == "getitem":
            return arguments[0][arguments[1]]
        if name in _INLINED:
            return self._inlined(node, arguments, path)
        if not isinstance(node.target, torch._ops.OpOverload):
            raise GraphError(f"torch.export left {name!r}, which is not a tensor operation")
        packet = node.target.overloadpacket.__name__
        if node.target.namespace in _COMMUNICATE:
            raise GraphError(
                f"{_module_of(node, path) or 'the module'} communicates between devices "
                f"({node.target.namespace}.{packet}); capture the model of one device, from which "
                "the planner makes the communication"
            )
        results = _results(node.meta.get("val"))
        if packet in _DROPPED or not results:
            return None
        named = _by_name(node.target, arguments, _substituted(node.kwargs, values))
        base = packet.removesuffix("_") if not packet.endswith("__") else packet
        in_place = base != packet and base != ""
        target = str(node.target).replace(f"{packet}.", f"{base}.", 1) if in_place else node.target
        call = Call(str(target), named, results, _module_of(node, path))
        CONVERTERS.get(base, Call.unknown)(call)
        self.nodes += call.nodes
        self.makers.update((value, made) for made in call.nodes for value in made.outputs)
        if in_place:
            self._written(node, call.values[0], values)
        several = isinstance(node.meta["val"], (list, tuple))
        return list(call.values) if several else call.values[0]

    def _inlined(self, node: torch.fx.Node, arguments: Any, path: str) -> Any:
        position = next(
            i for i, item in enumerate(arguments) if isinstance(item, torch.fx.GraphModule)
        )
        inner = arguments[position]
        places = [n for n in inner.graph.nodes if n.op == "placeholder"]
        bound = dict(zip(places, arguments[position + 1 :], strict=True))
        return self._walk(inner, bound, _module_of(node, path))

    def _written(
        self, node: torch.fx.Node, result: Value, values: dict[torch.fx.Node, Any]
    ) -> None:
        """Whoever reads the written tensor later reads the result."""
        written = node.args[0]
        before = values.get(written) if isinstance(written, torch.fx.Node) else None
        if before is None or before is result:
            return
        viewed = any(n.kind in _VIEW_KINDS and before in n.inputs for n in self.nodes)
        maker = self.makers.get(before)
        if viewed or (maker is not None and maker.kind in _VIEW_KINDS):
            raise _WrittenView
        for key, value in values.items():
            if value is before:
                values[key] = result


def _parameter_names(module: torch.nn.Module) -> dict[str, str]:
    """Every name of a parameter or buffer -> its first one; tied weights have several."""
    first: dict[int, str] = {}
    names: dict[str, str] = {}
    for pairs in (module.named_parameters, module.named_buffers):
        for name, tensor in pairs(remove_duplicate=False):
            names[name] = first.setdefault(id(tensor), name)
    return names


def _results(meta: Any) -> list[Value]:
    metas = meta if isinstance(meta, (list, tuple)) else [meta]
    return [
        Value("", tuple(int(size) for size in item.shape), dtype_name(item.dtype))
        for item in metas
        if isinstance(item, torch.Tensor)
    ]


def _module_of(node: torch.fx.Node, fallback: str) -> str:
    """Path of the innermost module that ran the node."""
    stack = node.meta.get("nn_module_stack")
    return str(list(stack.values())[-1][0]) if stack else fallback


def _by_name(
    operator: torch._ops.OpOverload, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by the names of the operator's schema, defaults filled in."""
    named: dict[str, Any] = {}
    for position, argument in enumerate(operator._schema.arguments):
        if position < len(arguments):
            named[argument.name] = arguments[position]
        elif argument.name in keywords:
            named[argument.name] = keywords[argument.name]
        elif argument.has_default_value():
            named[argument.name] = argument.default_value
    return named


def _substituted(item: Any, values: Mapping[torch.fx.Node, Any]) -> Any:
    if isinstance(item, torch.fx.Node):
        return values.get(item)
    if isinstance(item, (list, tuple)):
        return [_substituted(part, values) for part in item]
    if isinstance(item, dict):
        return {key: _substituted(part, values) for key, part in item.items()}
    return item
