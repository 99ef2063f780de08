"""Collectives under the names of PyTorch 2.13, which deprecates the older names."""

from __future__ import annotations

from collections.abc import Callable

import torch.distributed as dist

gather_into: Callable[..., object] = (
    getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
)
scatter_into: Callable[..., object] = (
    getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
)
