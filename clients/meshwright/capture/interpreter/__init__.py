"""Interpreter of graphs in PyTorch, the reference semantics of every canonical kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from meshwright.capture.interpreter import (
    arithmetic,
    attention,
    layers,
    linear_attention,
    mixture,
    recurrence,
    shape,
)
from meshwright.capture.interpreter.run import Kernel, Slots, TorchOpCall
from meshwright.capture.interpreter.torch_operator import arguments_of, operator_of
from meshwright.schema import Graph, Op
from meshwright.schema.op_attrs import read_attrs

KERNELS: dict[str, Kernel] = {
    **arithmetic.KERNELS,
    **shape.KERNELS,
    **layers.KERNELS,
    **attention.KERNELS,
    **mixture.KERNELS,
    **recurrence.KERNELS,
    **linear_attention.KERNELS,
}

__all__ = ["KERNELS", "TorchOpCall", "interpret", "results_of", "run_of"]


def interpret(
    graph: Graph,
    values: Mapping[str, torch.Tensor],
    *,
    symbols: Mapping[str, int] | None = None,
    dtypes: Mapping[str, torch.dtype] | None = None,
    slots: Slots = "enough",
) -> dict[str, torch.Tensor]:
    """All tensors of the graph by name, with autograd.

    values: the tensors without a producer. dtypes: replacements of dtypes of the graph. slots: of
    experts without a fixed capacity (`capacity_factor` 1.0): as many as the busiest one needs, or
    as the graph states, so that tokens may be dropped.
    Raises NotImplementedError for a kind without a kernel.
    """
    sizes = {**graph.symbols, **(symbols or {})}
    shapes = graph.instantiate(symbols or {})
    names = {tensor.name: tensor.dtype for tensor in graph.tensors}
    tensors = dict(values)
    for op in graph.ops:
        run = run_of(
            op,
            [tensors[name] for name in op.inputs],
            shapes=[shapes[name] for name in op.outputs],
            dtypes=[names[name] for name in op.outputs],
            sizes=sizes,
            replaced=dtypes or {},
            slots=slots,
        )
        tensors.update(zip(op.outputs, results_of(run), strict=True))
    return tensors


def run_of(
    op: Op,
    inputs: Sequence[torch.Tensor],
    *,
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[str],
    sizes: Mapping[str, int],
    replaced: Mapping[str, torch.dtype],
    slots: Slots = "stated",
) -> TorchOpCall:
    """The call of one op for its kernel.

    shapes, dtypes: of its outputs. sizes: of the symbols. replaced: replacements of dtypes.
    slots: of experts, by the shape or as many as needed.
    """

    def dtype(name: str) -> torch.dtype:
        result: torch.dtype = replaced.get(name) or getattr(torch, name)
        return result

    return TorchOpCall(
        op,
        list(inputs),
        read_attrs(op.attrs, sizes, dtype),
        list(shapes),
        [dtype(name) for name in dtypes],
        slots,
    )


def results_of(run: TorchOpCall) -> Sequence[torch.Tensor]:
    """The results of an op; NotImplementedError for a kind without a kernel."""
    results = KERNELS.get(run.op.kind, _aten)(run)
    return results if isinstance(results, (list, tuple)) else [results]


def _aten(run: TorchOpCall) -> Any:
    """An op with the kind of a torch operator."""
    if "tensors" not in run.attrs:
        raise NotImplementedError(f"op {run.op.name!r}: kind {run.op.kind!r} has no kernel")
    operator = operator_of(run.op.kind)
    if operator is None:
        raise NotImplementedError(
            f"op {run.op.name!r}: the operator {run.op.kind!r} is not registered. Import the "
            "module that registers it with torch.library"
        )
    arguments, keywords = arguments_of(operator, run.attrs, run.inputs)
    return operator(*arguments, **keywords)
