"""Run a Graph in PyTorch: the meaning of every canonical kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from meshwright.capture.interpreter import arithmetic, layers, mixture, recurrence, shape
from meshwright.capture.interpreter.run import Kernel, Run
from meshwright.schema import Graph, Op
from meshwright.schema.attrs import read_attrs

KERNELS: dict[str, Kernel] = {
    **arithmetic.KERNELS,
    **shape.KERNELS,
    **layers.KERNELS,
    **mixture.KERNELS,
    **recurrence.KERNELS,
}

__all__ = ["KERNELS", "Run", "interpret", "results_of", "run_of"]


def interpret(
    graph: Graph,
    values: Mapping[str, torch.Tensor],
    *,
    symbols: Mapping[str, int] | None = None,
    dtypes: Mapping[str, torch.dtype] | None = None,
    capacity_factor: float | None = None,
) -> dict[str, torch.Tensor]:
    """All tensors of the graph by name, autograd included.

    values: the tensors that no op makes. dtypes: run a dtype of the graph as another one.
    capacity_factor: over the graph's own, so that no token of a mixture is dropped.
    Raises NotImplementedError for a kind without a meaning here.
    """
    sizes = {**graph.symbols, **(symbols or {})}
    shapes = graph.instantiate(symbols or {})
    names = {tensor.name: tensor.dtype for tensor in graph.tensors}
    made = dict(values)
    for op in graph.ops:
        run = run_of(
            op,
            [made[name] for name in op.inputs],
            shapes=[shapes[name] for name in op.outputs],
            dtypes=[names[name] for name in op.outputs],
            sizes=sizes,
            replaced=dtypes or {},
            capacity_factor=capacity_factor,
        )
        made.update(zip(op.outputs, results_of(run), strict=True))
    return made


def run_of(
    op: Op,
    inputs: Sequence[torch.Tensor],
    *,
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[str],
    sizes: Mapping[str, int],
    replaced: Mapping[str, torch.dtype],
    capacity_factor: float | None = None,
) -> Run:
    """One op as its kernel sees it.

    shapes, dtypes: of its outputs. sizes: of the symbols. replaced: dtypes of the graph that run as
    others.
    """

    def dtype(name: str) -> torch.dtype:
        found: torch.dtype = replaced.get(name) or getattr(torch, name)
        return found

    return Run(
        op,
        list(inputs),
        read_attrs(op.attrs, sizes, dtype),
        list(shapes),
        [dtype(name) for name in dtypes],
        capacity_factor,
    )


def results_of(run: Run) -> Sequence[torch.Tensor]:
    """What an op makes; NotImplementedError for a kind without a meaning here."""
    made = KERNELS.get(run.op.kind, _aten)(run)
    return made if isinstance(made, (list, tuple)) else [made]


def _aten(run: Run) -> Any:
    """An op that kept its ATen name, with its inputs where `tensors` says they go."""
    namespace, *rest = run.op.kind.split(".")
    if len(rest) != 2 or "tensors" not in run.attrs:
        raise NotImplementedError(f"op {run.op.name!r}: kind {run.op.kind!r} has no meaning here")
    operator = getattr(getattr(getattr(torch.ops, namespace), rest[0]), rest[1])
    arguments = {key: value for key, value in run.attrs.items() if key != "tensors"}
    for place, tensor in zip(run.attrs["tensors"], run.inputs, strict=True):
        name, _, position = place.partition(".")
        if position:
            items = arguments.setdefault(name, [])
            items += [None] * (int(position) + 1 - len(items))
            items[int(position)] = tensor
        else:
            arguments[name] = tensor
    return operator(**arguments)
