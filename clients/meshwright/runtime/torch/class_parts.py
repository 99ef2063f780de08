"""Cross entropy of logits whose classes lie on several ranks.

Of every row l = log(sum_c exp(x_c - m)) + m - x_label: the maximum m is reduced first, then the
sum and the label's logit together. Backward needs nothing of other ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch

T = torch.Tensor
Reduce = Callable[[T, Literal["sum", "max"]], T]  # over the ranks that share the classes


def rows_of_class_parts(logits: T, labels: T, first: int, ignored: int, reduce: Reduce) -> T:
    """The loss of every row, zero where its label is ignored; first: of the classes held here."""
    return _Rows.apply(logits, labels, first, ignored, reduce)  # type: ignore[no-any-return, no-untyped-call]  # torch's apply has no types


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        logits: T,
        labels: T,
        first: int,
        ignored: int,
        reduce: Reduce,
    ) -> T:
        largest = reduce(logits.amax(dim=1), "max")
        powers = (logits - largest[:, None]).exp()
        place = labels - first
        is_here = (place >= 0) & (place < logits.shape[1]) & (labels != ignored)
        place = place.where(is_here, 0)
        picked = logits.gather(1, place[:, None])[:, 0] * is_here
        total, label = reduce(torch.stack([powers.sum(dim=1), picked]), "sum")
        counts = labels != ignored
        ctx.save_for_backward(powers / total[:, None], place, is_here, counts)
        rows: T = (total.log() + largest - label) * counts
        return rows

    @staticmethod
    def backward(ctx: Any, *sent: T) -> tuple[T | None, ...]:
        shares, place, is_here, counts = ctx.saved_tensors
        gradient = shares * counts[:, None]
        gradient[torch.arange(len(place), device=place.device), place] -= is_here.to(shares.dtype)
        return gradient * sent[0][:, None], None, None, None, None
