"""Kernels of kinds that move elements."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from meshwright.capture.interpreter.run import Kernel, TorchOpCall

T = torch.Tensor


def _slice(run: TorchOpCall) -> T:
    attrs = run.attrs
    place: list[slice] = [slice(None)] * run.x.dim()
    place[attrs["dim"]] = slice(attrs["start"], attrs["end"], attrs["step"])
    return run.x[tuple(place)]


def _pad(run: TorchOpCall) -> T:
    amounts = [amount for pair in reversed(run.attrs["pads"]) for amount in pair]
    return F.pad(run.x, amounts, mode=run.attrs["mode"], value=run.attrs["value"])


def _index(run: TorchOpCall) -> T:
    source, *index_tensors = run.inputs
    indices: list[Any] = [slice(None)] * (max(run.attrs["dims"]) + 1)
    for dim, index in zip(run.attrs["dims"], index_tensors, strict=True):
        indices[dim] = index
    return source[tuple(indices)]


def _scatter(run: TorchOpCall) -> T:
    source = run.optional(2)
    if source is None:
        return run.x.scatter(run.attrs["dim"], run.inputs[1], run.attrs["value"])
    return run.x.scatter(run.attrs["dim"], run.inputs[1], source)


def _masked_scatter(run: TorchOpCall) -> T:
    """Rows where the mask is true become the rows of the source, in order, sample by sample."""
    x, mask, rows = run.inputs
    order = mask.cumsum(1) - 1
    trailing = [1] * (x.dim() - 2)
    place = order.clamp(0, rows.shape[1] - 1).reshape(*order.shape, *trailing)
    taken = rows.gather(1, place.expand(*order.shape, *rows.shape[2:]))
    replaced = mask & (order < rows.shape[1])
    return torch.where(replaced.reshape(*order.shape, *trailing), taken, x)


def _segment_sum(run: TorchOpCall) -> T:
    rows, index = run.x, run.inputs[1]
    flat = rows.reshape(index.numel(), *rows.shape[index.dim() :])
    return rows.new_zeros(run.shapes[0]).index_add(0, index.reshape(-1), flat)


KERNELS: dict[str, Kernel] = {
    "identity": lambda run: run.x,
    "reshape": lambda run: run.x.reshape(run.shapes[0]),
    "transpose": lambda run: run.x.permute(run.attrs["dims"]),
    "expand": lambda run: run.x.expand(run.shapes[0]),
    "slice": _slice,
    "split": lambda run: torch.split(run.x, run.attrs["sizes"], run.attrs["dim"]),
    "concat": lambda run: torch.cat(run.inputs, run.attrs["dim"]),
    "stack": lambda run: torch.stack(run.inputs, run.attrs["dim"]),
    "pad": _pad,
    "roll": lambda run: torch.roll(run.x, run.attrs["shifts"], run.attrs["dims"]),
    "flip": lambda run: run.x.flip(run.attrs["dims"]),
    "tril": lambda run: run.x.tril(run.attrs["diagonal"]),
    "triu": lambda run: run.x.triu(run.attrs["diagonal"]),
    "gather": lambda run: run.x.gather(run.attrs["dim"], run.inputs[1].long()),
    "index_select": lambda run: run.x.index_select(run.attrs["dim"], run.inputs[1]),
    "index": _index,
    "scatter": _scatter,
    "scatter_add": lambda run: run.x.scatter_add(run.attrs["dim"], *run.inputs[1:]),
    "index_add": lambda run: run.x.index_add(
        run.attrs["dim"], *run.inputs[1:], alpha=run.attrs.get("alpha", 1)
    ),
    "unsorted_segment_sum": _segment_sum,
    "masked_scatter": _masked_scatter,
    "topk": lambda run: run.x.topk(run.attrs["k"], run.attrs["dim"]),
    "sort": lambda run: run.x.sort(run.attrs["dim"], run.attrs["descending"]),
    "argmax": lambda run: run.x.argmax(run.attrs["dim"], run.attrs["keepdim"]),
    "argmin": lambda run: run.x.argmin(run.attrs["dim"], run.attrs["keepdim"]),
}
