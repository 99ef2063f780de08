"""Functions of torch that are replaced while a module is traced, because they need values or a
device.

flex_attention             runs on no meta tensors; it is written out in products and a softmax,
                           with its functions of positions on all positions at once
_detect_is_causal_mask     reads the values of a mask; the mask itself says the same
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.nn.attention.flex_attention as flex
import torch.nn.modules.transformer as transformer
from torch._dynamo import config as dynamo_config

from meshwright.capture.substitution import Substitute, substituted

T = torch.Tensor


def torch_substitutes() -> AbstractContextManager[None]:
    """A context with the substitutes, for tracing a module."""
    changes: list[Substitute] = [
        (flex, "flex_attention_hop", _written_attention),
        (flex, "create_mask", _whole_mask),
        # the blocks are those of the mask, which the function of positions gives
        (flex, "_transpose_ordered", lambda number, indices: (number, indices)),
        (flex, "_validate_device", lambda *_: None),
        (flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True),
        (transformer, "_detect_is_causal_mask", lambda _mask, is_causal, _=None: bool(is_causal)),
        # a compiled function is traced as the function itself
        (dynamo_config, "error_on_nested_fx_trace", False),
    ]
    # names of torch's own, which other versions may lack
    return substituted(*(change for change in changes if hasattr(change[0], change[1])))


def _written_attention(
    query: T,
    key: T,
    value: T,
    score_mod: Callable[..., T],
    block_mask: tuple[Any, ...],
    scale: float,
    *_: Any,
) -> tuple[T, T, T]:
    """The output of flex_attention, the logarithm of each row's sum, and its maximum, to base 2."""
    batch, heads, rows, _width = query.shape
    repeats = heads // key.shape[1]
    key, value = (x.repeat_interleave(repeats, 1) if repeats > 1 else x for x in (key, value))
    scores = (query @ key.transpose(-2, -1) * scale).float()
    places = _places((batch, heads, rows, key.shape[2]), query.device)
    scores = score_mod(scores, *places)
    is_visible = block_mask[-1](*places)
    scores = torch.where(is_visible, scores, -float("inf"))
    out = scores.softmax(-1).to(value.dtype) @ value
    # flex_attention multiplies both by log(2), because its kernels compute powers of 2
    return out, scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)


def _whole_mask(
    function: Callable[..., T],
    batch: int | None,
    heads: int | None,
    rows: int,
    columns: int,
    device: Any = None,
) -> T:
    """The mask [batch, heads, rows, columns] of a function of positions."""
    shape = (batch or 1, heads or 1, rows, columns)
    return function(*_places(shape, device)).expand(shape)


def _places(shape: tuple[int, ...], device: Any) -> list[T]:
    """The indices of each dim in a dim of its own, so that a function of scalars broadcasts."""
    return [
        torch.arange(count, device=device).view([-1 if d == dim else 1 for d in range(len(shape))])
        for dim, count in enumerate(shape)
    ]
