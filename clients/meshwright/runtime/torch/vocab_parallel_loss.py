"""Vocab-parallel cross entropy: the loss of logits whose classes are sharded.

The loss of a row is l = log(sum_c exp(x_c - m)) + m - x_label. The maximum m is reduced first, then
the sum and the label's logit together. The backward pass needs no communication.
"""

from __future__ import annotations

from typing import Any

import torch

from meshwright.runtime.arrays import Reduce

T = torch.Tensor


def vocab_parallel_losses(logits: T, places: T, counted: T, reduce: Reduce) -> T:
    """The loss (r,) of every row of logits (r, v / parts); 0 for an ignored label.

    `places` (r,) are the indices of the labels among the classes of this rank, out of range if
    another rank has the class. `counted` (r,) is False for an ignored label.
    """
    return _Losses.apply(logits, places, counted, reduce)  # type: ignore[no-any-return, no-untyped-call]  # torch's apply has no types


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: T, places: T, counted: T, reduce: Reduce) -> T:
        largest = reduce(logits.amax(dim=1), "max")
        powers = (logits - largest[:, None]).exp()
        is_here = (places >= 0) & (places < logits.shape[1]) & counted
        places = places.where(is_here, 0)
        picked = logits.gather(1, places[:, None])[:, 0] * is_here
        total, label = reduce(torch.stack([powers.sum(dim=1), picked]), "sum")
        ctx.save_for_backward(powers / total[:, None], places, is_here, counted)
        losses: T = (total.log() + largest - label) * counted
        return losses

    @staticmethod
    def backward(ctx: Any, *sent: T) -> tuple[T | None, ...]:
        shares, places, is_here, counted = ctx.saved_tensors
        gradient = shares * counted[:, None]
        rows = torch.arange(len(places), device=places.device)
        gradient[rows, places] -= is_here.to(shares.dtype)
        return gradient * sent[0][:, None], None, None, None
