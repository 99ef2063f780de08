"""Stopped gradients of an exported program: detached tensors between a parameter and the loss.

A graph has no op that stops a gradient. `detach`, and code under `no_grad`, are therefore found in
the program of torch.export, before it is converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.graph_signature import InputKind

_NO_GRAD = "wrap_with_set_grad_enabled"


@dataclass(frozen=True, slots=True)
class GradientPath:
    """The gradient of one value: whether it reaches a parameter, and the stops on other ways."""

    is_trained: bool = False
    stops: frozenset[str] = frozenset()


def stopped_gradients(
    exported: torch.export.ExportedProgram, module: torch.nn.Module
) -> tuple[str, ...]:
    """The paths of modules that stop a gradient between a trainable parameter and the loss."""
    trained = {
        spec.arg.name
        for spec in exported.graph_signature.input_specs
        if spec.kind is InputKind.PARAMETER
        and spec.target is not None
        and module.get_parameter(spec.target).requires_grad
    }
    graph_module = exported.graph_module
    bound = {
        node: GradientPath(is_trained=node.name in trained)
        for node in graph_module.graph.nodes
        if node.op == "placeholder"
    }
    outputs = _walk(graph_module, bound)
    return tuple(sorted(outputs[0].stops)) if outputs else ()


def _walk(
    graph_module: torch.fx.GraphModule, bound: Mapping[torch.fx.Node, GradientPath]
) -> list[GradientPath]:
    """The gradient paths of the outputs of a graph whose placeholders have these paths."""
    paths = dict(bound)
    for node in graph_module.graph.nodes:
        if node.op == "output":
            results = node.args[0]
            every = results if isinstance(results, (list, tuple)) else [results]
            return [paths.get(item, GradientPath()) for item in every]
        if node.op == "call_function":
            paths[node] = _path(graph_module, node, paths)
    return []


def _path(
    graph_module: torch.fx.GraphModule,
    node: torch.fx.Node,
    paths: Mapping[torch.fx.Node, GradientPath],
) -> GradientPath:
    if "val" in node.meta and not _is_differentiable(node.meta["val"]):
        return GradientPath()
    path = _joined(paths[source] for source in node.all_input_nodes if source in paths)
    name = getattr(node.target, "__name__", str(node.target))
    if name.startswith("detach") or (name == _NO_GRAD and node.args[0] is False):
        stops = path.stops | ({_place(node)} if path.is_trained else set())
        return GradientPath(is_trained=False, stops=stops)
    inner = next((n for n in node.all_input_nodes if n.op == "get_attr"), None)
    subgraph = None if inner is None else getattr(graph_module, str(inner.target), None)
    if isinstance(subgraph, torch.fx.GraphModule):
        places = [n for n in subgraph.graph.nodes if n.op == "placeholder"]
        arguments = [a for a in node.args if isinstance(a, torch.fx.Node) and a is not inner]
        bound = {
            place: paths.get(argument, GradientPath())
            for place, argument in zip(places, arguments, strict=False)
        }
        return _joined(_walk(subgraph, bound))
    return path


def _joined(paths: Iterable[GradientPath]) -> GradientPath:
    every = list(paths)
    return GradientPath(
        is_trained=any(path.is_trained for path in every),
        stops=frozenset[str]().union(*(path.stops for path in every)),
    )


def _is_differentiable(value: Any) -> bool:
    """Whether a traced value, or one of several, has a floating dtype."""
    every = value if isinstance(value, (list, tuple)) else [value]
    return any(
        isinstance(item, torch.Tensor) and (item.is_floating_point() or item.is_complex())
        for item in every
    )


def _place(node: torch.fx.Node) -> str:
    """The path of the innermost module of the node; `forward` for the root."""
    stack = node.meta.get("nn_module_stack")
    path = str(list(stack.values())[-1][0]) if stack else ""
    return path or "forward"
