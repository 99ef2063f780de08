"""Kernels on the device at hand, as PyTorch runs them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from meshwright.agent.accelerator import Accelerator
from meshwright.agent.tasks import Kernel
from meshwright.agent.timing import timed


def dtype_of(name: str) -> torch.dtype:
    """PyTorch's dtype of the schema's name."""
    found = getattr(torch, name)
    assert isinstance(found, torch.dtype)
    return found


def measure_kernel(own: Kernel, accelerator: Accelerator, *, seconds: float) -> list[float]:
    """ns of each run. Raises torch.OutOfMemoryError or RuntimeError where it cannot run."""
    work = _work(own, accelerator.device)
    with torch.no_grad():
        runs = timed(work, accelerator.synchronize, seconds=seconds)
    if own.kind == "launch":
        return [run / own.shape[0] for run in runs]
    return runs


def _work(own: Kernel, device: torch.device) -> Callable[[], object]:
    dtype = dtype_of(own.dtype)
    match own.kind:
        case "matmul":
            m, n, k = own.shape
            left = torch.randn(m, k, device=device).to(dtype)
            right = torch.randn(k, n, device=device).to(dtype)
            result = torch.empty(m, n, dtype=dtype, device=device)
            return lambda: torch.mm(left, right, out=result)
        case "attention":
            batch, heads, sequence, head_dim, causal = own.shape
            shape = (batch, heads, sequence, head_dim)
            query, key, value = (torch.randn(shape, device=device).to(dtype) for _ in range(3))
            return lambda: torch.nn.functional.scaled_dot_product_attention(
                query, key, value, is_causal=bool(causal)
            )
        case "memory":
            numbers = torch.ones(own.shape[0], dtype=dtype, device=device)
            written = torch.empty_like(numbers)
            return lambda: torch.mul(numbers, 2, out=written)
        case "launch":
            one = torch.ones(1, dtype=dtype, device=device)
            return lambda: [one.mul_(1) for _ in range(own.shape[0])]
