"""Training steps on a CUDA device: step time, memory at four moments, and kernels by work."""

from __future__ import annotations

import gc
import re
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from bench.gpu.cases import Case

WARM_UP, STEPS = 3, 10
# chosen: more steps do not change a median, and device time is scarce
MOST_SECONDS = 6.0
KERNELS = 30  # the longest, of one step
Measured = dict[str, Any]

# names of CUDA kernels by kind of work; the first that matches counts
_WORK = (
    ("attention", r"flash|fmha|attention|sdpa"),
    ("update", r"adam|multi_tensor"),
    ("products", r"gemm|cublas|cutlass|nvjet|wgrad|dgrad|xmma|convolve|implicit|cudnn"),
)


def measure_module(case: Case) -> Measured:
    """One case, run as PyTorch users do: AdamW (fused) on the parameters of the module."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        module = case.model.module(case.precision)
    if case.recompute == "full":
        module.gradient_checkpointing_enable({"use_reentrant": False})
    run: Callable[..., Any] = torch.compile(module) if case.execution == "compiled" else module
    batches = [
        case.model.batch(case.rows, "cuda", case.precision) for _ in range(case.microbatches)
    ]

    def gradients() -> torch.Tensor:
        loss = torch.zeros((), device="cuda")
        for batch in batches:
            with autocast(case):
                value = loss_of(run(**batch)) / case.microbatches
            saved.append(torch.cuda.memory_allocated())
            value.backward()
            loss += value.detach()
        return loss

    saved: list[int] = []
    return measure_step(case, list(module.parameters()), gradients, saved)


def autocast(case: Case, device: str = "cuda") -> torch.autocast:
    """The autocast region of a case, or a region that is disabled."""
    return torch.autocast(device, torch.bfloat16, enabled=case.precision == "autocast")


def loss_of(output: Any) -> torch.Tensor:
    """The loss of a forward pass: of transformers, or the first output."""
    loss = getattr(output, "loss", None)
    result: torch.Tensor = output[0] if isinstance(output, tuple) else output
    return result if loss is None else loss


def measure_step(
    case: Case,
    parameters: list[torch.nn.Parameter],
    gradients: Callable[[], torch.Tensor],
    saved: list[int],
) -> Measured:
    """Time and memory of steps. `gradients` runs the passes, and notes the memory after a forward
    in `saved`."""
    at_start = torch.cuda.memory_allocated()
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)

    def step() -> torch.Tensor:
        loss = gradients()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    begin = time.perf_counter()
    losses = [float(step()) for _ in range(WARM_UP)]
    warm_up_s = time.perf_counter() - begin
    at_rest = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    saved.clear()
    times = _times(step)
    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    result: Measured = {
        "step_ns": round(statistics.median(times)),
        "least_ns": round(min(times)),
        "most_ns": round(max(times)),
        "steps": len(times),
        "warm_up_s": round(warm_up_s, 2),
        "first_loss": losses[0],
        "tokens_per_s": round(case.batch * (case.model.seq or 1) / statistics.median(times) * 1e9),
        "at_start_bytes": at_start,
        "at_rest_bytes": at_rest,
        "saved_bytes": max(saved) - at_rest if saved else None,
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "requested_peak_bytes": stats.get("requested_bytes.all.peak"),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
        "device_used_bytes": total - free,
        "elements": sum(parameter.numel() for parameter in parameters),
    }
    if case.execution == "eager":
        result |= _profile(step)
    return result


def release() -> None:
    """Free what a case has left, for the next one."""
    gc.collect()
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def _times(step: Callable[[], object]) -> list[float]:
    """Time between the ends of steps on the device, in ns; the host runs ahead."""
    torch.cuda.synchronize()
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    ends[0].record()
    begin, done = time.perf_counter(), 0
    for end in ends[1:]:
        step()
        end.record()
        done += 1
        if time.perf_counter() - begin > MOST_SECONDS:
            break
    torch.cuda.synchronize()
    return [ends[k].elapsed_time(ends[k + 1]) * 1e6 for k in range(done)]


def _profile(step: Callable[[], object]) -> Measured:
    """The time of the kernels of one step, by work and by name."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        step()
        torch.cuda.synchronize()
    by_work = {"products": 0.0, "attention": 0.0, "update": 0.0, "other": 0.0}
    rows = []
    for event in recorded.key_averages():
        ns = event.self_device_time_total * 1e3
        if not ns:
            continue
        work = work_of(event.key)
        by_work[work] += ns
        rows.append((round(ns), event.count, work, event.key[:160]))
    rows.sort(reverse=True)
    return {
        **{f"{work}_ns": round(ns) for work, ns in by_work.items()},
        "kernels": sum(row[1] for row in rows),
        "longest_kernels": rows[:KERNELS],
    }


def work_of(kernel: str) -> str:
    """The kind of work of a CUDA kernel, by its name."""
    return next((work for work, names in _WORK if re.search(names, kernel, re.I)), "other")
