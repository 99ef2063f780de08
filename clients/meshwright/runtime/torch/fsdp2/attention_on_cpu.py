"""Sharding of PyTorch's attention on CPUs, which DTensor 2.13 has for CUDA only."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.distributed.tensor import Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

_BATCH, _HEADS = 0, 1
Sharding = tuple[list[Placement], list[Placement | None]]


@cache
def register_attention_on_cpu() -> None:
    """Register the sharding of batch and heads with DTensor. It is registered once a process."""
    ops = torch.ops.aten

    def forward(*arguments: Any, **options: Any) -> list[Sharding]:
        return _shardings(2, 3, len(arguments) - 3, arguments[0], options.get("attn_mask"))

    def backward(*arguments: Any, **options: Any) -> list[Sharding]:
        return _shardings(3, 6, len(arguments) - 6, arguments[1], options.get("attn_mask"))

    register_sharding(ops._scaled_dot_product_flash_attention_for_cpu.default)(forward)
    register_sharding(ops._scaled_dot_product_flash_attention_for_cpu_backward.default)(backward)


def _shardings(outputs: int, tensors: int, others: int, query: Any, mask: Any) -> list[Sharding]:
    """Replicated, and sharded on the batch or the heads, of all tensors alike.

    A mask that is the same for all samples or heads is replicated.
    """
    places: list[Placement] = [Replicate(), Shard(_BATCH), Shard(_HEADS)]
    found: list[Sharding] = []
    for place in places:
        inputs: list[Placement | None] = [*[place] * tensors, *[None] * others]
        if mask is not None:
            dim = place.dim - len(query.shape) + len(mask.shape) if isinstance(place, Shard) else -1
            is_cut = dim >= 0 and mask.shape[dim] > 1
            inputs.append(Shard(dim) if is_cut else Replicate())
        found.append(([place] * outputs, inputs))
    return found
