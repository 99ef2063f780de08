"""Kernels that frameworks run as one, of which an allocator sees what goes in and what comes out.

On CPU PyTorch runs these as several operators. Values and gradients are those of the plain
functions, made again for the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import _disable_current_modes

from meshwright.capture.interpreter import KERNELS
from meshwright.capture.interpreter.run import Kernel, TorchOpCall

T = torch.Tensor
_PLAIN: dict[str, Kernel] = dict(KERNELS)
_ATTENTION = F.scaled_dot_product_attention


def one(function: Callable[..., T], inputs: Sequence[T], saves: Sequence[int]) -> T:
    """Run as one kernel; saves: positions of what it keeps for the backward pass, the last one
    that of its result."""
    made: T = _One.apply(function, saves, *inputs)
    return made


def rms_norm(x: T, weight: T, eps: float) -> T:
    """Keeps its input (Zhang and Sennrich 2019, and every fused kernel of it)."""

    def run(own: T, scale: T) -> T:
        wide = own.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(own.dtype) * scale

    return one(run, (x, weight), (0, 1))


@contextmanager
def as_on_devices() -> Iterator[None]:
    """Attention and dropout as devices run them wherever a module calls them, and the kernels of
    the interpreter that are one there."""
    with (
        mock.patch.object(F, "scaled_dot_product_attention", _attention),
        mock.patch.object(F, "dropout", _dropout),
        mock.patch.dict(KERNELS, _FUSED),
    ):
        yield


def _attention(query: T, key: T, value: T, *rest: Any, **options: Any) -> T:
    """Keeps its inputs and its result (Dao et al. 2022, algorithm 2), whose heads of one position
    lie side by side, so that they are joined by a view."""

    def run(q: T, k: T, v: T) -> T:
        made: T = _ATTENTION(q, k, v, *rest, **options)
        return made.transpose(1, 2).contiguous().transpose(1, 2)

    return one(run, (query, key, value), (0, 1, 2, 3))


def _dropout(x: T, share: float = 0.5, training: bool = True, inplace: bool = False) -> T:
    """With a mask of one byte a number; PyTorch's on CPU is as large as x."""
    del inplace
    return torch.native_dropout(x, share, training)[0] if share and training else x


def _fused(kind: str, saves: Sequence[int]) -> Kernel:
    def kernel(run: TorchOpCall) -> T:
        bare = replace(run, inputs=[])

        def plain(*inputs: T) -> T:
            made: T = _PLAIN[kind](replace(bare, inputs=list(inputs)))
            return made

        return one(plain, run.inputs, saves)

    return kernel


_FUSED: dict[str, Kernel] = {
    "rms_norm": lambda run: rms_norm(run.x, run.inputs[1], run.attrs["eps"]),
    "rotary": _fused("rotary", (1, 2)),
    "moe_dispatch": _fused("moe_dispatch", (1,)),
    "moe_combine": _fused("moe_combine", (0, 1, 2)),
}


class _One(torch.autograd.Function):
    """What is not kept of the inputs has no part in the gradients: the backward pass sees zeros."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., T], saves: Sequence[int], *inputs: T) -> T:
        with _disable_current_modes():
            made = function(*inputs)
        made = made.detach()  # the result alone is seen
        ctx.function = function
        ctx.likes = [(own.shape, own.dtype, own.device) for own in inputs]
        kept = [own if k in saves else None for k, own in enumerate((*inputs, made))]
        ctx.save_for_backward(*kept)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: T) -> tuple[T | None, ...]:
        with _disable_current_modes():
            found = _gradients(ctx, gradient)
        return None, None, *[own if own is None else own.detach() for own in found]


def _gradients(ctx: Any, gradient: T) -> list[T | None]:
    kept = ctx.saved_tensors[:-1]
    needs = ctx.needs_input_grad[2:]
    with torch.enable_grad():
        given = [
            torch.zeros(shape, dtype=dtype, device=device) if own is None else own.detach()
            for own, (shape, dtype, device) in zip(kept, ctx.likes, strict=True)
        ]
        wanted = [
            own.requires_grad_()
            for own, need in zip(given, needs, strict=True)
            if need and own.is_floating_point()
        ]
        found = iter(torch.autograd.grad(ctx.function(*given), wanted, gradient))
    return [
        next(found) if need and own.is_floating_point() else None
        for own, need in zip(given, needs, strict=True)
    ]
