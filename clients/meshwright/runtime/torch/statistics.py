"""Norms and softmax of which every rank has a part of what they normalise.

Sums over all parts are reduced together, forward, and so are their gradients. Mean and variance are
those of the sums of x and of its square.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch

from meshwright.capture.interpreter import Run

T = torch.Tensor
Reduce = Callable[[T, Literal["sum", "max"]], T]
Normalise = Callable[[Run, Reduce, int], T]  # the run, over whom, how many parts


def _summed(part: T, reduce: Reduce) -> T:
    """The sum over all ranks, of which each uses it for what it has itself."""
    return _Summed.apply(part, reduce)  # type: ignore[no-any-return, no-untyped-call]  # torch's apply has no types


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: T, reduce: Reduce) -> T:
        ctx.reduce = reduce
        return reduce(part, "sum")

    @staticmethod
    def backward(ctx: Any, *sent: T) -> tuple[T | None, ...]:
        return ctx.reduce(sent[0], "sum"), None


def _centred(x: T, dims: list[int], reduce: Reduce, parts: int, eps: float) -> T:
    """Mean 0 and variance 1 over some dims of all parts."""
    count = parts * torch.Size([x.shape[d] for d in dims]).numel()
    sums = torch.stack([x.sum(dims, keepdim=True), x.pow(2).sum(dims, keepdim=True)])
    mean, square = (_summed(sums, reduce) / count).unbind()
    return (x - mean) * torch.rsqrt(square - mean.pow(2) + eps)


def _batch_norm(run: Run, reduce: Reduce, parts: int) -> T:
    x, weight, bias = run.inputs[:3]
    dims = [d for d in range(x.dim()) if d != 1]
    shape = [-1 if d == 1 else 1 for d in range(x.dim())]
    own = _centred(x, dims, reduce, parts, run.attrs["eps"])
    return own * weight.reshape(shape) + bias.reshape(shape)


def _layer_norm(run: Run, reduce: Reduce, parts: int) -> T:
    own = _centred(run.x, _last(run), reduce, parts, run.attrs["eps"])
    weight, bias = run.optional(1), run.optional(2)
    own = own if weight is None else own * weight
    return own if bias is None else own + bias


def _rms_norm(run: Run, reduce: Reduce, parts: int) -> T:
    x, weight = run.inputs
    wide = x.to(run.attrs.get("compute", x.dtype))
    dims = _last(run)
    count = parts * torch.Size([x.shape[d] for d in dims]).numel()
    square = _summed(wide.pow(2).sum(dims, keepdim=True), reduce) / count
    return weight * (wide * torch.rsqrt(square + run.attrs["eps"])).to(x.dtype)


def _softmax(run: Run, reduce: Reduce, _parts: int) -> T:
    powers, total = _powers(run, reduce)
    return powers.exp() / total


def _log_softmax(run: Run, reduce: Reduce, _parts: int) -> T:
    powers, total = _powers(run, reduce)
    return powers - total.log()


def _powers(run: Run, reduce: Reduce) -> tuple[T, T]:
    """What goes into the exponential, and the sum of that over all parts."""
    dim = run.attrs["dim"]
    powers = run.x - reduce(run.x.detach().amax(dim, keepdim=True), "max")
    return powers, _summed(powers.exp().sum(dim, keepdim=True), reduce)


def _last(run: Run) -> list[int]:
    return list(range(-int(run.attrs["dims"]), 0))


NORMALISED: Mapping[str, Normalise] = {
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
}
