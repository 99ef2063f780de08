"""Capture of a PyTorch module as a Graph."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping

import torch

from meshwright.capture.decompose import passes_with_decomposition
from meshwright.capture.finalize import finalize_program, is_label
from meshwright.capture.module_tracing import ModuleTracing
from meshwright.capture.op_rules.find import RuleSearch, operator_name
from meshwright.capture.precision import (
    DType,
    Inputs,
    autocast_dtype,
    inputs_in,
    loss_notes,
    module_dtype,
    module_in,
)
from meshwright.capture.program import Program
from meshwright.capture.shape_check import check_shapes
from meshwright.capture.symbolic_sizes import BATCH_WITNESS
from meshwright.capture.trace_errors import quiet, trace_error
from meshwright.schema import Graph
from meshwright.schema.errors import MeshwrightError


def capture_module(
    module: torch.nn.Module,
    example_inputs: Callable[[Mapping[str, int]], Inputs],
    *,
    symbols: Mapping[str, int],
    name: str,
    labels: Iterable[str] = (),
    limits: Mapping[str, int] | None = None,
    constants: Iterable[int] = (),
    rules: Mapping[str, str] | None = None,
    dtype: DType | None = None,
    autocast: DType | None = None,
) -> Graph:
    """The graph of one forward pass, which returns the loss or a tuple that starts with it.

    module: on the meta device, or with weights, which are ignored.
    example_inputs: called with a size for each symbol; returns the forward's arguments.
    symbols: the symbolic sizes, with their values in the graph.
    labels: inputs that are labels, besides those with the name of a label.
    limits: the largest traced size of a symbol, such as the length of a position table.
    constants: numbers of the model other than dims of its parameters; the primes of symbols avoid
    them.
    rules: sharding rules of ops without a canonical kind, by operator, such as
    `{"mylib::norm": "b s [h], [h] -> b s [h]"}` (`meshwright.capture.op_rules.statement`).
    dtype: that of all floating parameters, buffers and inputs, as `module.to(dtype)` gives it.
    autocast: the dtype of an autocast region around the forward pass.
    """
    stated = dict(rules or {})
    dims = [size for tensor in _tensors(module) for size in tensor.shape]
    ceilings = {
        symbol: min(BATCH_WITNESS, (limits or {}).get(symbol, BATCH_WITNESS)) for symbol in symbols
    }
    empty = _without_weights(module)
    if dtype is not None:
        empty = module_in(module_dtype(dtype), empty)
        example_inputs = inputs_in(module_dtype(dtype), example_inputs)
    tracing = ModuleTracing(
        empty,
        example_inputs,
        numbers=[*dims, *constants],
        symbols=symbols,
        autocast=None if autocast is None else autocast_dtype(autocast),
    )
    with quiet():
        tracing.unroll(ceilings)
    try:
        program = tracing.program(ceilings)
    except MeshwrightError:
        raise
    except Exception as failure:  # torch.export documents no exception types
        try:
            program = tracing.program(tracing.smaller(ceilings))
        except Exception:
            raise trace_error(failure, module) from failure
    program.notes += tracing.notes
    label_names = set(labels)
    for value in program.sources:
        if value.role == "input" and (value.name in label_names or is_label(value.name)):
            value.role = "label"
    program.notes += loss_notes(program)
    graph = finalize_program(
        program,
        passes_with_decomposition(_kinds_of(stated, program)),
        name=name,
        symbols=symbols,
        rules=lambda graph: RuleSearch(graph, stated).rules(),
    )
    check_shapes(graph)
    return graph


def _kinds_of(operators: Iterable[str], program: Program) -> set[str]:
    """The kinds of the program that belong to these operators."""
    names = set(operators)
    return {node.kind for node in program.nodes if operator_name(node.kind) in names}


def _tensors(module: torch.nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def _without_weights(module: torch.nn.Module) -> torch.nn.Module:
    """The module on the meta device; a module with weights is copied without weights."""
    weights = [tensor for tensor in _tensors(module) if not tensor.is_meta]
    if not weights:
        return module
    return copy.deepcopy(module, {id(tensor): _empty(tensor) for tensor in weights})


def _empty(tensor: torch.Tensor) -> torch.Tensor:
    empty = torch.empty_like(tensor, device="meta")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty
