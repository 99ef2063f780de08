"""The arguments of a module's forward for the inputs and labels of the plan's graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from meshwright.runtime.ranks import LOADED
from meshwright.schema import Graph, ModuleMismatch, Tensor

T = torch.Tensor
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class ForwardArguments:
    """The arguments of a forward. `unread` are required arguments that the graph does not read."""

    positional: tuple[Any, ...]
    named: Mapping[str, Any]
    unread: tuple[str, ...]


def forward_arguments(
    module: torch.nn.Module, graph: Graph, value: Callable[[Tensor], T]
) -> ForwardArguments:
    """The arguments of the forward, with a value for each input and label of the graph.

    A required argument that the graph does not read gets a tensor of no dims. Raises ModuleMismatch
    if the forward has no argument for an input.
    """
    inputs = {t.name: value(t) for t in graph.tensors if t.role in LOADED}
    parameters = inspect.signature(module.forward).parameters.values()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    unread = []
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    listed = {name: inputs.pop(name) for name in _listed(rest, inputs)}
    for parameter in parameters:
        name = parameter.name
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if name in inputs:
            argument = inputs.pop(name)
        elif parameter.default is parameter.empty:
            argument = torch.empty((), device="meta")
            unread.append(name)
        else:
            continue
        if parameter.kind in _BY_NAME and not listed:
            named[name] = argument
        else:
            positional.append(argument)
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        named |= inputs
    elif inputs:
        raise ModuleMismatch(
            f"the plan's graph {graph.id} has the input {next(iter(inputs))!r}, and the forward of "
            f"{type(module).__name__} has the arguments {', '.join(p.name for p in parameters)}. "
            "Train the module that was captured, or capture this module and plan again"
        )
    return ForwardArguments((*positional, *listed.values()), named, tuple(unread))


def _listed(rest: str | None, inputs: Mapping[str, T]) -> list[str]:
    """The inputs of a `*rest` argument, which torch.export numbers."""
    if rest is None:
        return []
    names = [name for name in inputs if name.rpartition("_")[0] == rest]
    return sorted(names, key=lambda name: int(name.rpartition("_")[2]))
