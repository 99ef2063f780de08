"""Dtypes of a capture: of the module's tensors, of autocast, and of the loss."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch

from meshwright.capture.program import Program
from meshwright.schema.errors import GraphError

Inputs: TypeAlias = Mapping[str, torch.Tensor] | Sequence[torch.Tensor]
DType: TypeAlias = torch.dtype | str

MODULE_DTYPES: Mapping[str, torch.dtype] = {
    name: getattr(torch, name) for name in ("bfloat16", "float16", "float32", "float64")
}
AUTOCAST_DTYPES: Mapping[str, torch.dtype] = {
    name: getattr(torch, name) for name in ("bfloat16", "float16")
}
LOW_LOSS_NOTE = (
    "the loss is in {dtype}, because the module computes it from {dtype}. Cast the logits with "
    "`.float()` for a loss in float32"
)


def module_dtype(dtype: DType) -> torch.dtype:
    """The dtype that `--dtype` names."""
    return _dtype(dtype, "--dtype", MODULE_DTYPES)


def autocast_dtype(dtype: DType) -> torch.dtype:
    """The dtype that `--autocast` names."""
    return _dtype(dtype, "--autocast", AUTOCAST_DTYPES)


def _dtype(dtype: DType, option: str, known: Mapping[str, torch.dtype]) -> torch.dtype:
    name = str(dtype).removeprefix("torch.")
    if name not in known:
        raise GraphError(f"{option} has no dtype {name!r}. Use {', '.join(known)}")
    return known[name]


def module_in(dtype: torch.dtype, module: torch.nn.Module) -> torch.nn.Module:
    """A copy of a module on the meta device, converted as `module.to(dtype)` does."""
    return copy.deepcopy(module).to(dtype)


def inputs_in(
    dtype: torch.dtype, inputs: Callable[[Mapping[str, int]], Inputs]
) -> Callable[[Mapping[str, int]], Inputs]:
    """The function of inputs, with its floating tensors in a dtype."""

    def converted(sizes: Mapping[str, int]) -> Inputs:
        arguments = inputs(sizes)
        if isinstance(arguments, Mapping):
            return {name: _converted(tensor, dtype) for name, tensor in arguments.items()}
        return [_converted(tensor, dtype) for tensor in arguments]

    return converted


def _converted(argument: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    is_float = isinstance(argument, torch.Tensor) and argument.is_floating_point()
    return argument.to(dtype) if is_float else argument


def loss_notes(program: Program) -> list[str]:
    """A note on a loss of less than float32."""
    if program.loss is None or program.loss.dtype not in AUTOCAST_DTYPES:
        return []
    return [LOW_LOSS_NOTE.format(dtype=program.loss.dtype)]
