"""Kernels on a CUDA device, timed by device events beside the agent's own timing.

The agent waits for the device after every run. Here runs follow each other on the stream, so that
the difference is what starting and waiting add to a short kernel. Attention with its backward pass,
optimizer steps and copies between host and device are no tasks of the agent.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from meshwright.agent.accelerator import find_accelerator
from meshwright.agent.kernels import dtype_of, kernel_call
from meshwright.agent.tasks import kernels
from meshwright.agent.timing import Timing, time_runs

Row = dict[str, Any]
ROUNDS = 7
ROUND_NS = 4e6  # chosen: a round of runs is long beside the events around it
# batch, query heads, key heads, sequence, head dimension
ATTENTIONS = (
    (2, 32, 8, 4096, 64),
    (2, 32, 8, 4096, 128),
    (16, 16, 16, 1024, 64),
    (1, 16, 16, 16384, 128),
)
ADAM_ELEMENTS = (2**24, 2**27)
COPIED_BYTES = (2**20, 2**24, 2**28)


def agent_tasks() -> Iterator[Row]:
    """Every task of the agent in bfloat16 and float32: its own timing, and by events."""
    accelerator = find_accelerator(0)
    for task in kernels(("bfloat16", "float32"), largest=8192):
        work = kernel_call(task, accelerator.device)
        with torch.no_grad():
            waited = Timing.of(time_runs(work, accelerator.synchronize, seconds=0.05))
            events_ns = event_ns(work)
        count = task.shape[0] if task.kind == "launch" else 1
        yield {
            "kind": task.kind, "dtype": task.dtype, "shape": "x".join(map(str, task.shape)),
            "flops": task.flops, "bytes_moved": task.bytes_moved(dtype_of(task.dtype).itemsize),
            "waited_ns": waited.ns / count, "events_ns": events_ns / count,
        }  # fmt: skip


def attentions() -> Iterator[Row]:
    """Causal attention in bfloat16, forward and backward."""
    for batch, heads, groups, seq, head_dim in ATTENTIONS:
        sizes = ((heads, seq), (groups, seq), (groups, seq))
        query, key, value = (
            torch.randn(batch, h, s, head_dim, device="cuda", dtype=torch.bfloat16).requires_grad_()
            for h, s in sizes
        )

        def forward(
            q: Any = query, k: Any = key, v: Any = value, gqa: bool = heads != groups
        ) -> Any:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=gqa)

        result = forward()
        sent = torch.randn_like(result)
        wanted = (query, key, value)

        def backward(result: Any = result, wanted: Any = wanted, sent: Any = sent) -> Any:
            return torch.autograd.grad(result, wanted, sent, retain_graph=True)

        flops = 2.0 * batch * heads * seq**2 * head_dim
        shape = f"{batch}x{heads}x{groups}x{seq}x{head_dim}"
        for kind, work, often in (
            ("attention", forward, 1.0),
            ("attention_backward", backward, 2.5),
        ):
            yield {
                "kind": kind, "dtype": "bfloat16", "shape": shape, "flops": flops * often,
                "events_ns": event_ns(work),
            }  # fmt: skip


def updates() -> Iterator[Row]:
    """Steps of AdamW in float32: fused, and the default of PyTorch."""
    for elements in ADAM_ELEMENTS:
        for kind, options in (("adamw_fused", {"fused": True}), ("adamw_foreach", {})):
            # pieces of a layer's size, as models have them
            parameters = [
                torch.nn.Parameter(torch.ones(2**22, device="cuda"))
                for _ in range(elements // 2**22)
            ]
            for parameter in parameters:
                parameter.grad = torch.ones_like(parameter)
            optimizer = torch.optim.AdamW(parameters, lr=1e-4, **options)
            yield {
                "kind": kind, "dtype": "float32", "shape": str(elements), "flops": 0.0,
                "bytes_moved": 28.0 * elements, "events_ns": event_ns(optimizer.step),
            }  # fmt: skip


def copies() -> Iterator[Row]:
    """Copies between pinned host memory and the device, and on the device."""
    for count in COPIED_BYTES:
        host = torch.empty(count, dtype=torch.uint8, pin_memory=True)
        device, other = (torch.empty(count, dtype=torch.uint8, device="cuda") for _ in range(2))
        for kind, target, source in (
            ("host_to_device", device, host), ("device_to_host", host, device),
            ("device_to_device", other, device),
        ):  # fmt: skip

            def work(target: Any = target, source: Any = source) -> Any:
                return target.copy_(source, non_blocking=True)

            moved = count * (2.0 if kind == "device_to_device" else 1.0)
            yield {
                "kind": kind, "dtype": "uint8", "shape": str(count), "flops": 0.0,
                "bytes_moved": moved, "events_ns": event_ns(work),
            }  # fmt: skip


def event_ns(work: Callable[[], object]) -> float:
    """Time of one run among others that follow each other on the stream, in ns."""
    first = _round(work, 2)
    runs = max(2, min(500, int(ROUND_NS / max(first, 1.0))))
    return statistics.median(_round(work, runs) for _ in range(ROUNDS))


def _round(work: Callable[[], object], runs: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    work()
    torch.cuda.synchronize()
    begin.record()
    for _ in range(runs):
        work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1e6 / runs
