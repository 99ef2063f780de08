"""Collectives that PyTorch 2.13 calls by new names, and warns of the old ones."""

from __future__ import annotations

from collections.abc import Callable

import torch.distributed as dist

gather_into: Callable[..., object] = (
    getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
)
scatter_into: Callable[..., object] = (
    getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
)
