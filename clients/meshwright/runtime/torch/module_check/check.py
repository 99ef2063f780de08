"""The check that a module is that of the plan."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from meshwright.runtime.torch.autocast import autocast_dtypes
from meshwright.runtime.torch.module_check.graph_difference import GraphDifference, first_difference
from meshwright.runtime.torch.module_check.loss_comparison import NotComparable, compare_loss
from meshwright.runtime.torch.module_check.module_trace import (
    CannotTrace,
    ModuleTrace,
    TraceSettings,
    fallback_settings,
    trace_module,
)
from meshwright.runtime.torch.module_check.parameter_check import REMEDY
from meshwright.runtime.torch.module_check.transformers_settings import (
    is_of_transformers,
    transformers_settings,
)
from meshwright.schema import Graph, ModuleMismatch
from meshwright.stages.dropout import drops

Method = Literal["graph", "loss", "none"]
# chosen: no further settings for a module that takes so long to trace
PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class ModuleCheck:
    """The method that compared the module with the plan's graph, and the reason for another one.

    `graph` compares the ops, `loss` one step of one process, `none` nothing.
    """

    method: Method
    reason: str = ""


def compare_module(
    module: torch.nn.Module, graph: Graph, method: Method, *, symbols: Mapping[str, int]
) -> ModuleCheck:
    """Raise ModuleMismatch if the module computes another loss than the graph.

    `symbols` are the sizes of the job: the values of all symbols of the graph.

    A module that cannot be traced, and a graph of another capture, are compared by one step. If
    that is not possible either, the result has the method `none` and the reason.
    """
    if method == "none":
        return ModuleCheck("none", "check_module is 'none'")
    if method == "loss":
        return _by_loss(module, graph, symbols, "check_module is 'loss'")
    try:
        trace, difference = _closest_trace(module, graph, symbols)
    except CannotTrace as why:
        return _by_loss(module, graph, symbols, f"torch.export does not trace the module ({why})")
    if difference is None:
        return _by_gradients(module, graph, symbols, trace.functions)
    if _has_mode(graph) or _has_mode(trace.graph):
        _check_mode(module, graph, symbols, difference)
    if _is_foreign(graph, trace.graph, module):
        return _by_loss(
            module, graph, symbols, f"the graph {graph.id} is not a capture of a PyTorch module"
        )
    raise ModuleMismatch(f"the module is not that of the plan: {difference}. {REMEDY}")


def _closest_trace(
    module: torch.nn.Module,
    graph: Graph,
    symbols: Mapping[str, int],
    *,
    training: bool | None = None,
) -> tuple[ModuleTrace, GraphDifference | None]:
    """The first trace that equals the graph, else the first trace; with its difference.

    `training` replaces the module's mode.
    """
    deadline = time.monotonic() + PATIENCE_S
    first: tuple[ModuleTrace, GraphDifference | None] | None = None
    failure: CannotTrace | None = None
    for settings in _settings(module, graph, symbols):
        try:
            trace = trace_module(module, graph, settings, training=training)
        except CannotTrace as why:
            failure = failure or why
            continue
        difference = _difference(module, graph, trace)
        if difference is None:
            return trace, None
        first = first or (trace, difference)
        if time.monotonic() > deadline:
            break
    if first is not None:
        return first
    assert failure is not None
    raise failure


def _settings(
    module: torch.nn.Module, graph: Graph, symbols: Mapping[str, int]
) -> Iterator[TraceSettings]:
    """The settings that captures may have had, the most probable first."""
    for autocast in (*autocast_dtypes(graph), None):
        if is_of_transformers(module):
            yield replace(transformers_settings(module, graph), autocast=autocast)
        plain = TraceSettings(autocast=autocast)
        yield plain
        yield from fallback_settings(plain, symbols)


def _difference(
    module: torch.nn.Module, graph: Graph, trace: ModuleTrace
) -> GraphDifference | None:
    if trace.graph.loss is None:
        raise ModuleMismatch(
            f"the plan's graph {graph.id} has the loss {graph.loss!r}, and the forward of the "
            f"module returns no tensor of one element first. {REMEDY}"
        )
    return first_difference(graph, trace.graph, trace.sizes, _tied(module, graph))


def _tied(module: torch.nn.Module, graph: Graph) -> dict[str, str]:
    """The first name of each tied parameter that the graph has once, under another name."""
    first: dict[int, str] = {}
    pairs = module.named_parameters(remove_duplicate=False)
    names = {name: first.setdefault(id(parameter), name) for name, parameter in pairs}
    planned = [t.name for t in graph.tensors if t.role == "parameter" and t.name in names]
    times = Counter(names[name] for name in planned)
    return {name: names[name] for name in planned if times[names[name]] == 1}


def _check_mode(
    module: torch.nn.Module, graph: Graph, symbols: Mapping[str, int], difference: GraphDifference
) -> None:
    """Raise ModuleMismatch that names the mode if the module equals the graph in the other one."""
    for training, name, call in ((True, "training", "train"), (False, "evaluation", "eval")):
        if all(part.training == training for part in module.modules()):
            continue
        try:
            _, of_mode = _closest_trace(module, graph, symbols, training=training)
        except CannotTrace:
            continue
        if of_mode is None:
            other = "evaluation" if training else "training"
            raise ModuleMismatch(
                f"the module is that of the plan in {name} mode, and it is in {other} mode: "
                f"{difference}. Call module.{call}(), or capture the module in {other} mode "
                "and plan again"
            )


def _has_mode(graph: Graph) -> bool:
    """Whether an op of the graph depends on the mode of the module."""
    return any(op.kind == "batch_norm" or drops(op.kind, op.attrs) for op in graph.ops)


def _by_gradients(
    module: torch.nn.Module, graph: Graph, symbols: Mapping[str, int], functions: Sequence[str]
) -> ModuleCheck:
    """Compare the gradients of a module whose ops are those of the graph."""
    if not functions:
        return ModuleCheck("graph")
    try:
        compare_loss(module, graph, symbols)
    except NotComparable as why:
        return ModuleCheck(
            "graph", f"the gradients of {', '.join(functions)} were not compared, as {why}"
        )
    return ModuleCheck("graph")


def _is_foreign(graph: Graph, traced: Graph, module: torch.nn.Module) -> bool:
    """Whether a graph is no capture of PyTorch: its ops are in no module of the traced one."""
    if any(op.kind.startswith(("onnx.", "jax.", "mindspore.")) for op in graph.ops):
        return True
    names = {name for name, _ in module.named_modules()}
    paths, traced_paths = ({op.module for op in g.ops} - {""} for g in (graph, traced))
    return bool(traced_paths) and names.isdisjoint(paths)


def _by_loss(
    module: torch.nn.Module, graph: Graph, symbols: Mapping[str, int], why: str
) -> ModuleCheck:
    try:
        compare_loss(module, graph, symbols)
    except NotComparable as also:
        return ModuleCheck("none", f"{why}, and {also}")
    return ModuleCheck("loss", why)
