"""Timing of PyTorch kernels on the device of this process."""

from __future__ import annotations

from collections.abc import Callable

import torch

from meshwright.agent.accelerator import Accelerator
from meshwright.agent.tasks import KernelTask
from meshwright.agent.timing import time_runs

# measured: bench/data/gpu/h100/kernels.jsonl. Submission and wait add 5 to 26 µs to a run
LEAST_RUN_NS = 2e6


def dtype_of(name: str) -> torch.dtype:
    """PyTorch's dtype for a dtype name of the schema."""
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype


def measure_kernel(task: KernelTask, accelerator: Accelerator, *, seconds: float) -> list[float]:
    """Time of each run in ns.

    Raises torch.OutOfMemoryError or RuntimeError where the device cannot run the kernel.
    """
    work = kernel_call(task, accelerator.device)
    with torch.no_grad():
        runs = time_runs(
            work,
            accelerator.synchronize,
            seconds=seconds,
            least_run_ns=0.0 if accelerator.kind == "cpu" else LEAST_RUN_NS,
        )
    if task.kind == "launch":
        return [run / task.shape[0] for run in runs]
    return runs


def kernel_call(task: KernelTask, device: torch.device) -> Callable[[], object]:
    """A function that runs a kernel once, on random or constant operands of its own."""
    dtype = dtype_of(task.dtype)
    match task.kind:
        case "matmul":
            m, n, k = task.shape
            left = torch.randn(m, k, device=device).to(dtype)
            right = torch.randn(k, n, device=device).to(dtype)
            result = torch.empty(m, n, dtype=dtype, device=device)
            return lambda: torch.mm(left, right, out=result)
        case "attention":
            batch, heads, sequence, head_dim, causal = task.shape
            shape = (batch, heads, sequence, head_dim)
            query, key, value = (torch.randn(shape, device=device).to(dtype) for _ in range(3))
            return lambda: torch.nn.functional.scaled_dot_product_attention(
                query, key, value, is_causal=bool(causal)
            )
        case "memory":
            numbers = torch.ones(task.shape[0], dtype=dtype, device=device)
            output = torch.empty_like(numbers)
            return lambda: torch.mul(numbers, 2, out=output)
        case "launch":
            counter = torch.ones(1, dtype=dtype, device=device)
            return lambda: [counter.mul_(1) for _ in range(task.shape[0])]
