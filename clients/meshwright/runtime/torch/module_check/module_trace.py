"""Traces of a module, as captures make them, for comparison with the graph of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from meshwright.capture.autocast import autocast_regions
from meshwright.capture.autograd_functions import autograd_functions
from meshwright.capture.decompose import passes_with_decomposition
from meshwright.capture.export import export_module, read_export
from meshwright.capture.finalize import finalize_program
from meshwright.capture.symbolic_sizes import BATCH_WITNESS, SMALLEST_WITNESS, Witness
from meshwright.runtime.torch.module_check.forward_arguments import forward_arguments
from meshwright.runtime.torch.module_check.meta_copy import meta_copy
from meshwright.schema import Graph, MeshwrightError, ModuleMismatch, Tensor


class CannotTrace(Exception):
    """torch.export does not trace the module."""


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """The settings of one trace; a trace with those of the capture gives the graph of the capture.

    limits     the largest traced size of each symbol
    sizes      the traced sizes of symbols, if they are not primes
    constants  numbers that the primes of symbols avoid, beside the dims of tensors
    named      further arguments of the forward
    patches    the context of the trace
    autocast   the dtype of an autocast region around the forward
    prepare    changes the copy of the module that is traced
    """

    limits: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] | None = None
    constants: tuple[int, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    patches: Callable[[], AbstractContextManager[None]] = nullcontext
    prepare: Callable[[torch.nn.Module], None] = lambda copy: None  # noqa: ARG005
    autocast: torch.dtype | None = None


@dataclass(frozen=True, slots=True)
class ModuleTrace:
    """The graph of a module, and the traced size of each symbol.

    `functions` are the autograd functions of the module, whose gradients are no part of the graph.
    """

    graph: Graph
    sizes: Mapping[str, int]
    functions: tuple[str, ...]


def trace_module(
    module: torch.nn.Module, graph: Graph, settings: TraceSettings, *, training: bool | None = None
) -> ModuleTrace:
    """The trace of a module with the inputs of a graph; `training` replaces the module's mode.

    Raises CannotTrace, or ModuleMismatch for a forward with other arguments.
    """
    try:
        copy = meta_copy(module, graph)
        settings.prepare(copy)
    except Exception as why:  # attributes of a module raise errors of any class
        raise CannotTrace(f"the module cannot be copied: {_line(why)}") from why
    if training is not None:
        copy.train(training)
    witness = _witness(copy, graph, settings)
    sizes = witness.primes if settings.sizes is None else settings.sizes

    def value(tensor: Tensor) -> torch.Tensor:
        dtype = getattr(torch, tensor.dtype)
        return torch.zeros(tensor.dims(sizes), dtype=dtype, device="meta")

    arguments = forward_arguments(copy, graph, value)
    named = {**arguments.named, **settings.named}
    try:
        regions = autocast_regions(settings.autocast)
        with settings.patches(), autograd_functions() as functions, regions:
            exported = export_module(copy, arguments.positional, named)
            program = read_export(copy, exported, witness=witness)
        passes = passes_with_decomposition({op.kind for op in graph.ops})
        traced = finalize_program(program, passes, name=graph.name, symbols=graph.symbols)
    except Exception as why:  # torch and modules raise errors of any class
        if arguments.unread:
            raise ModuleMismatch(
                f"the forward of {type(module).__name__} needs the argument "
                f"{arguments.unread[0]!r}, which the plan's graph {graph.id} does not read. Train "
                "the module that was captured, or capture this module and plan again"
            ) from why
        raise CannotTrace(_line(why)) from why
    return ModuleTrace(traced, sizes, tuple(functions))


def fallback_settings(settings: TraceSettings, sizes: Mapping[str, int]) -> Iterator[TraceSettings]:
    """Settings for a module whose capture had limits: the sizes of the job, first as limits."""
    if all(size >= SMALLEST_WITNESS for size in sizes.values()):
        yield replace(settings, limits=sizes)
    yield replace(settings, sizes=sizes)


def _witness(module: torch.nn.Module, graph: Graph, settings: TraceSettings) -> Witness:
    if settings.sizes is not None:
        return Witness()
    dims = [size for t in (*module.parameters(), *module.buffers()) for size in t.shape]
    ceilings = {
        symbol: min(BATCH_WITNESS, settings.limits.get(symbol, BATCH_WITNESS))
        for symbol in graph.symbols
    }
    try:
        return Witness.choose(ceilings, [*dims, *settings.constants])
    except MeshwrightError as why:
        raise CannotTrace(_line(why)) from why


def _line(why: Exception) -> str:
    """An error in one line of limited length."""
    return f"{type(why).__name__}: {' '.join(str(why).split())[:300]}"
