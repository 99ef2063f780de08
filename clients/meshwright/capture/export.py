"""Conversion of torch.export's graph to a Program, with in-place writes functionalized."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.overrides import TorchFunctionMode

from meshwright.capture.aten import AtenCall, converter_of, dtype_name
from meshwright.capture.aten.call import arguments_by_name, result_values
from meshwright.capture.autocast import autocast_regions
from meshwright.capture.checkpoint_calls import checkpoint_notes
from meshwright.capture.functionalization import (
    NO_GRAD_REGION,
    NeedsFunctionalization,
    functionalized,
    is_in_place,
    is_no_grad_region,
)
from meshwright.capture.interpreter.torch_operator import operator_of, shares_memory
from meshwright.capture.program import Node, Program, Value
from meshwright.capture.recurrent_calls import is_recurrent, recurrent_call, refuse_packed
from meshwright.capture.symbolic_sizes import Witness
from meshwright.capture.torch_substitutes import torch_substitutes
from meshwright.schema.errors import GraphError
from meshwright.schema.graph import Role

_ROLES: Mapping[InputKind, Role] = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
    InputKind.USER_INPUT: "input",
}
_WRAPPERS = frozenset({NO_GRAD_REGION, "wrap_with_autocast", "tag_activation_checkpoint"})
_NO_OPS = frozenset({"_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_size"})
_COMMUNICATION_NAMESPACES = frozenset(
    {"_c10d_functional", "_c10d_functional_autograd", "c10d", "_dtensor"}
)
NO_LOSS = (
    "the forward pass returns no scalar first, so the graph has no loss. Return the loss to plan a "
    "training step"
)
NO_GRADIENT_WRITE = (
    "{module} writes to a tensor with a gradient under torch.no_grad() or through detach(), and a "
    "graph has no op for that gradient. Write to a copy, or compute a new tensor with the gradient"
)
_VIEW_KINDS = frozenset({"reshape", "transpose", "expand", "slice", "split", "stop_gradient"})


class _CallsAsOps(TorchFunctionMode):
    """Mode that converts literal numbers and recurrent layers to ops.

    Meta tensors lose the numbers of literals, and recurrent layers would run step by step.

    A tensor of one number becomes `full`; consecutive indices, x[:, [3, 4]], become a slice.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        keywords = dict(kwargs or {})
        if func is torch.tensor and len(args) == 1 and isinstance(args[0], (bool, int, float)):
            keywords.pop("requires_grad", None)
            return torch.full((), args[0], **keywords)
        if func is torch.Tensor.__getitem__:
            args = (args[0], _without_lists(args[1]))
        refuse_packed(func)
        if is_recurrent(func):
            return recurrent_call(func, args, keywords)
        return func(*args, **keywords)


def _without_lists(index: Any) -> Any:
    """The index with its single list replaced by an equivalent slice, if there is one."""
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


def export_program(
    module: torch.nn.Module,
    arguments: Mapping[str, Any] | Sequence[Any],
    *,
    witness: Witness,
    autocast: torch.dtype | None = None,
) -> Program:
    """Trace one forward pass without running it; a scalar first output is the loss.

    autocast: the low dtype of an autocast region around the whole pass.
    """
    named = arguments if isinstance(arguments, Mapping) else {}
    positional = () if isinstance(arguments, Mapping) else arguments
    with checkpoint_notes() as notes, autocast_regions(autocast) as regions:
        exported = export_module(module, positional, named)
    return read_export(module, exported, witness=witness, notes=[*notes, *regions.notes])


def export_module(
    module: torch.nn.Module, positional: Sequence[Any], named: Mapping[str, Any]
) -> torch.export.ExportedProgram:
    """The exported program of one forward pass, traced on the meta device.

    A tensor that stands for several arguments becomes one tensor for each: torch.export would make
    one input of them.
    """
    arguments, keywords = _distinct((tuple(positional), dict(named)))
    with warnings.catch_warnings():
        # tracing raises deprecation warnings inside torch
        warnings.simplefilter("ignore")
        with tracing_modes():
            return torch.export.export(module, arguments, keywords, strict=False)


def _distinct(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    """The arguments, with a copy of each tensor for every place after its first."""
    seen: set[int] = set()

    def own(leaf: Any) -> Any:
        is_repeated = isinstance(leaf, torch.Tensor) and id(leaf) in seen
        seen.add(id(leaf))
        return leaf.clone() if is_repeated else leaf

    return torch.utils._pytree.tree_map(own, arguments)


@contextmanager
def tracing_modes() -> Iterator[None]:
    """The meta device and the modes under which forward functions are traced."""
    # most forward functions create tensors without naming a device
    with torch.device("meta"), _CallsAsOps(), torch_substitutes():
        yield


def read_export(
    module: torch.nn.Module,
    exported: torch.export.ExportedProgram,
    *,
    witness: Witness,
    notes: Sequence[str] = (),
) -> Program:
    """The program of an exported module, with these notes."""
    try:
        return _ExportReader(module, exported, witness, notes=notes).read()
    except NeedsFunctionalization:
        return _ExportReader(module, functionalized(exported), witness, notes=notes).read()


@dataclass
class _ExportReader:
    module: torch.nn.Module
    exported: torch.export.ExportedProgram
    witness: Witness
    nodes: list[Node] = field(default_factory=list)
    sources: list[Value] = field(default_factory=list)
    makers: dict[Value, Node] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def read(self) -> Program:
        values: dict[torch.fx.Node, Any] = {}
        signature = self.exported.graph_signature
        specs = {spec.arg.name: spec for spec in signature.input_specs}
        names = _parameter_names(self.module)
        for node in self.exported.graph.nodes:
            if node.op == "placeholder":
                values[node] = self._source(node, specs[node.name], names)
        self._walk(self.exported.graph_module, values, "")
        output_names = [
            spec.arg.name
            for spec in signature.output_specs
            if spec.kind is OutputKind.USER_OUTPUT and hasattr(spec.arg, "name")
        ]
        by_name = {node.name: value for node, value in values.items()}
        outputs = [value for name in output_names if isinstance(value := by_name.get(name), Value)]
        if not outputs:
            raise GraphError("the module's forward returns no tensor. Return the loss")
        loss = outputs[0] if outputs[0].shape == () else None
        return Program(
            self.nodes,
            self.sources,
            [loss] if loss else outputs,
            loss,
            notes=[*self.notes, *([] if loss else [NO_LOSS])],
            witness=self.witness,
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
        """Convert the nodes of a graph or subgraph; returns the values of its output node."""
        for node in graph_module.graph.nodes:
            if node.op == "get_attr":
                values[node] = self._attribute(graph_module, str(node.target))
            elif node.op == "call_function":
                values[node] = self._call(node, values, path)
            elif node.op == "output":
                return _substitute(node.args[0], values)
        return None

    def _attribute(self, graph_module: torch.fx.GraphModule, name: str) -> Any:
        target: Any = graph_module
        for part in name.split("."):
            target = getattr(target, part)
        if not isinstance(target, torch.Tensor):
            return target
        value = Value(name, tuple(target.shape), dtype_name(target.dtype), "constant")
        self.sources.append(value)
        return value

    def _call(self, node: torch.fx.Node, values: dict[torch.fx.Node, Any], path: str) -> Any:
        arguments = _substitute(node.args, values)
        name = getattr(node.target, "__name__", str(node.target))
        if name == "getitem":
            return arguments[0][arguments[1]]
        if name in _WRAPPERS:
            return self._inline(node, arguments, path)
        if not isinstance(node.target, torch._ops.OpOverload):
            if _is_for_checks_only(node):
                return None
            raise GraphError(f"torch.export left {name!r}, which is not a tensor operation")
        packet = node.target.overloadpacket.__name__
        if node.target.namespace in _COMMUNICATION_NAMESPACES:
            raise GraphError(
                f"{_module_of(node, path) or 'the module'} communicates between devices "
                f"({node.target.namespace}.{packet}). Capture the model of one device, for which "
                "the planner adds the communication, or wrap the program of one rank in a "
                "meshwright.capture.SpmdRegion"
            )
        if node.target._schema.is_mutable and not is_in_place(node.target):
            raise NeedsFunctionalization(f"{node.target} writes to its arguments")
        results = result_values(node.meta.get("val"))
        if packet in _NO_OPS or not results:
            return None
        named = arguments_by_name(node.target, arguments, _substitute(node.kwargs, values))
        in_place = node.target._schema.is_mutable
        base = packet.removesuffix("_") if in_place else packet
        target = str(node.target).replace(f"{packet}.", f"{base}.", 1)
        call = AtenCall(str(target), named, results, _module_of(node, path))
        converter_of(node.target.namespace, base)(call)
        self.nodes += call.nodes
        self.makers.update((value, maker) for maker in call.nodes for value in maker.outputs)
        if in_place:
            self._replace_written(node, call.values[0], values)
        is_list = isinstance(node.meta["val"], (list, tuple))
        return list(call.values) if is_list else call.values[0]

    def _inline(self, node: torch.fx.Node, arguments: Any, path: str) -> Any:
        position = next(
            i for i, item in enumerate(arguments) if isinstance(item, torch.fx.GraphModule)
        )
        inner = arguments[position]
        places = [n for n in inner.graph.nodes if n.op == "placeholder"]
        bound = dict(zip(places, arguments[position + 1 :], strict=True))
        module = _module_of(node, path)
        if is_no_grad_region(node):
            self._refuse_writes(inner, bound, module)
        results = self._walk(inner, bound, module)
        if is_no_grad_region(node):
            return [self._without_gradient(result, module) for result in results]
        return results

    def _without_gradient(self, value: Any, module: str) -> Any:
        """The value of a region under `torch.no_grad()`."""
        if not isinstance(value, Value):
            return value
        result = Value("", value.shape, value.dtype)
        maker = Node("stop_gradient", [value], [result], {}, module)
        self.nodes.append(maker)
        self.makers[result] = maker
        return result

    def _refuse_writes(
        self, region: torch.fx.GraphModule, bound: Mapping[torch.fx.Node, Any], module: str
    ) -> None:
        """Raise GraphError where a region under `torch.no_grad()` changes a tensor with a gradient.

        Later readers of the tensor would pass no gradient to it, unlike in PyTorch.
        """
        (output,) = (node for node in region.graph.nodes if node.op == "output")
        for node in output.all_input_nodes:
            written: Any = node
            while isinstance(written.target, torch._ops.OpOverload) and is_in_place(written.target):
                written = written.args[0]
            if written is not node and self._has_gradient(bound.get(written)):
                raise GraphError(NO_GRADIENT_WRITE.format(module=module or "the module"))

    def _refuse_write_to_detached(
        self, write: torch.fx.Node, detached: torch.fx.Node, maker: Node
    ) -> None:
        """Raise GraphError where a write to a detached tensor changes one with a gradient."""
        source = detached.args[0] if detached.args else None
        is_read = isinstance(source, torch.fx.Node) and any(write < user for user in source.users)
        if is_read and self._has_gradient(maker.inputs[0]):
            raise GraphError(NO_GRADIENT_WRITE.format(module=maker.module or "the module"))

    def _has_gradient(self, value: Any) -> bool:
        """Whether a value depends on a trainable parameter."""
        waiting: list[Any] = [value]
        seen: set[Value] = set()
        while waiting:
            one = waiting.pop()
            if not isinstance(one, Value) or one in seen or not one.is_differentiable:
                continue
            seen.add(one)
            if one.role == "parameter" and one.trainable:
                return True
            maker = self.makers.get(one)
            waiting += maker.inputs if maker is not None and maker.kind != "stop_gradient" else []
        return False

    def _replace_written(
        self, node: torch.fx.Node, result: Value, values: dict[torch.fx.Node, Any]
    ) -> None:
        """Replace the written tensor by the result for later readers."""
        target = node.args[0]
        if not isinstance(target, torch.fx.Node):
            return
        before = values.get(target)
        if before is None or before is result:
            return
        has_view = any(before in n.inputs and _is_view(n) for n in self.nodes)
        maker = self.makers.get(before)
        if maker is not None and maker.kind == "stop_gradient":
            self._refuse_write_to_detached(node, target, maker)
        if has_view or (maker is not None and _is_view(maker)):
            raise NeedsFunctionalization(f"{node.target} writes to a tensor with a view")
        for key, value in values.items():
            if value is before:
                values[key] = result


def _is_view(node: Node) -> bool:
    """Whether the outputs of a node may share memory with an input."""
    operator = operator_of(node.kind) if "." in node.kind else None
    return node.kind in _VIEW_KINDS or (operator is not None and shares_memory(operator))


def _is_for_checks_only(node: torch.fx.Node) -> bool:
    """Whether a number that a tensor holds is read by run-time checks alone, as in an assert."""
    return all(
        _is_for_checks_only(user)
        if not isinstance(user.target, torch._ops.OpOverload)
        else user.target.overloadpacket.__name__ in _NO_OPS
        for user in node.users
    )


def _parameter_names(module: torch.nn.Module) -> dict[str, str]:
    """The first name of each parameter or buffer, by name; tied weights have several names."""
    first: dict[int, str] = {}
    names: dict[str, str] = {}
    for pairs in (module.named_parameters, module.named_buffers):
        for name, tensor in pairs(remove_duplicate=False):
            names[name] = first.setdefault(id(tensor), name)
    return names


def _module_of(node: torch.fx.Node, fallback: str) -> str:
    """The path of the innermost module of the node."""
    stack = node.meta.get("nn_module_stack")
    return str(list(stack.values())[-1][0]) if stack else fallback


def _substitute(item: Any, values: Mapping[torch.fx.Node, Any]) -> Any:
    if isinstance(item, torch.fx.Node):
        return values.get(item)
    if isinstance(item, (list, tuple)):
        return [_substitute(part, values) for part in item]
    if isinstance(item, dict):
        return {key: _substitute(part, values) for key, part in item.items()}
    return item
