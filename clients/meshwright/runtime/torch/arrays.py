"""The array functions of sharded kernels, in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

from meshwright.capture.interpreter import TorchOpCall, results_of
from meshwright.capture.interpreter.attention import masked, visible_keys
from meshwright.runtime.arrays import Reduce
from meshwright.runtime.local_op import LocalOp
from meshwright.runtime.sequence_order import Turn
from meshwright.runtime.torch.sequence_reorder import turned
from meshwright.runtime.torch.vocab_parallel_loss import vocab_parallel_losses

T = torch.Tensor


class TorchArrays:
    """Implements `meshwright.runtime.arrays.Arrays`."""

    def outputs(self, call: TorchOpCall) -> Sequence[T]:
        return results_of(call)

    def sum(self, x: T, dims: Sequence[int], *, keepdims: bool) -> T:
        return x.sum(dim=tuple(dims), keepdim=keepdims)

    def max(self, x: T, dim: int) -> T:
        return x.detach().amax(dim, keepdim=True)

    def exp(self, x: T) -> T:
        return x.exp()

    def log(self, x: T) -> T:
        return x.log()

    def rsqrt(self, x: T) -> T:
        return x.rsqrt()

    def cast(self, x: T, dtype: torch.dtype) -> T:
        return x.to(dtype)

    def stack(self, items: Sequence[T]) -> T:
        return torch.stack(list(items))

    def split(self, x: T, lengths: Sequence[int], dim: int) -> Sequence[T]:
        return torch.split(x, list(lengths), dim)

    def index(self, x: T) -> T:
        return x.long()

    def zero_unless(self, condition: T, x: T) -> T:
        return x.where(condition, 0)

    def rows(self, table: T, ids: T) -> T:
        return F.embedding(ids, table)

    def along(self, x: T, index: T, dim: int) -> T:
        return x.gather(dim, index)

    def row_losses(self, logits: T, labels: T, ignored: int) -> T:
        return F.cross_entropy(logits, labels, reduction="none", ignore_index=ignored)

    def vocab_parallel_losses(self, logits: T, places: T, counted: T, reduce: Reduce) -> T:
        return vocab_parallel_losses(logits, places, counted, reduce)

    def sum_over_ranks(self, part: T, reduce: Reduce) -> T:
        return _SumOverRanks.apply(part, reduce)  # type: ignore[no-any-return, no-untyped-call]  # torch's apply has no types

    def attention(self, op: LocalOp) -> Sequence[T]:
        """Attention by position chunk by chunk: query rows attend to the keys that they may see."""
        query, key, value = op.call.inputs[:3]
        mask, sinks = _mask_and_sinks(op.call)
        count, size = query.shape[2], key.shape[2]
        first = int(op.part(op.axes(op.terms[0][2:3]))) * count
        if op.chunks is None:
            starts, length = [first], count
        else:
            turn, length = Turn(size, op.chunks, is_back=True), size // op.chunks
            key, value = (turned(local, {2: turn}) for local in (key, value))
            order = turn._replace(is_back=False).places
            starts = [order[place] for place in range(first, first + count, length)]
        outputs: list[T] = []
        attrs = {**op.call.attrs, "causal": False}
        is_causal = bool(op.call.attrs["causal"])
        limits = {name: attrs.pop(name) for name in ("window", "chunk") if name in attrs}
        # only scaled_dot_product_attention reads the short form of a causal mask
        has_short_form = not (limits or mask is not None or attrs.keys() & {"sinks", "softcap"})
        for number, (rows, start) in enumerate(
            zip(torch.split(query, length, dim=2), starts, strict=True)
        ):
            count = rows.shape[2]
            stop = start + count if is_causal else size
            seen: T = (
                causal_lower_right(count, stop)
                if has_short_form
                else visible_keys(
                    count, stop, causal=is_causal, first_row=start, device=rows.device, **limits
                )
            )
            if mask is not None:
                seen = masked(_part_of_mask(mask, number * length, count, stop), seen)
            inputs = [rows, key[:, :, :stop], value[:, :, :stop], seen, *sinks]
            outputs += results_of(replace(op.call, inputs=inputs, attrs=attrs))
        return [torch.cat(outputs, dim=2)]


def _mask_and_sinks(call: TorchOpCall) -> tuple[T | None, list[T]]:
    rest = list(call.inputs[3:])
    sinks = [rest.pop()] if call.attrs.get("sinks") else []
    return (rest[0] if rest else None), sinks


def _part_of_mask(mask: T, first: int, rows: int, keys: int) -> T:
    """The rows and the first keys of a mask, each of which may broadcast."""
    if mask.dim() > 1 and mask.shape[-2] != 1:
        mask = mask[..., first : first + rows, :]
    return mask[..., :keys]


class _SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: T, reduce: Reduce) -> T:
        ctx.reduce = reduce
        total: T = reduce(part, "sum")
        return total

    @staticmethod
    def backward(ctx: Any, *sent: T) -> tuple[T | None, ...]:
        return ctx.reduce(sent[0], "sum"), None
