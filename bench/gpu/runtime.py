"""Plans that the runtime carries out on one CUDA device, beside the module itself."""

from __future__ import annotations

import copy
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import meshwright
from bench.gpu.cases import Case
from bench.gpu.training import Measured, autocast, loss_of, measure_step


@contextmanager
def world_of_one() -> Iterator[None]:
    """The variables of a launcher for one process, with a port of their own."""
    before = dict(os.environ)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(
        RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def measure_runtime(case: Case, plan: Path, device: str = "cuda") -> Measured:
    """Time and memory of steps under a plan."""
    torch.manual_seed(0)
    with torch.device(device):
        module = case.model.module(case.precision)
    batch = case.model.batch(case.batch, device, case.precision)
    saved: list[int] = []
    with world_of_one(), meshwright.parallelize(module, plan) as trained:
        del module
        result = measure_step(
            case, list(trained.parameters()), lambda: trained.step(**trained.slice(batch)), saved
        )
        record = trained.record
        return result | {
            "saved_bytes": record.saved_bytes,
            "module_check": _check_of(trained),
            "fallen_back": dict(trained.fallen_back),
            "why_plain": trained.why_plain,
        }


def compare_runtime(case: Case, plan: Path, device: str = "cuda") -> Measured:
    """Loss and gradients of one step under a plan, beside those of the module."""
    torch.manual_seed(0)
    with torch.device(device):
        module = case.model.module(case.precision)
    batch = case.model.batch(case.batch, device, case.precision)
    with world_of_one(), meshwright.parallelize(copy.deepcopy(module), plan) as trained:
        loss = trained.step(**trained.slice(batch))
        parts = {name: tensor.chunk(case.microbatches) for name, tensor in batch.items()}
        whole = torch.zeros((), device=device)
        for number in range(case.microbatches):
            with autocast(case, device):
                term = loss_of(module(**{name: part[number] for name, part in parts.items()}))
            (term / case.microbatches).backward()
            whole += term.detach() / case.microbatches
        errors = {}
        for name, parameter in module.named_parameters():
            own, gradient = trained.whole_gradient(name), parameter.grad
            if own is None or gradient is None:
                errors[name] = 0.0 if own is gradient else float("nan")
                continue
            norm = gradient.double().norm()
            errors[name] = float((own.double() - gradient.double()).norm() / norm)
        worst = max(errors, key=lambda name: errors[name])
        return {
            "loss": float(loss),
            "module_loss": float(whole),
            "loss_error": abs(float(loss) / float(whole) - 1),
            "gradient_error": errors[worst],
            "worst_gradient": worst,
            "gradients": len(errors),
            "module_check": _check_of(trained),
            "fallen_back": dict(trained.fallen_back),
        }


def _check_of(trained: Any) -> str:
    check = trained.module_check
    return f"{check.method}: {check.reason}" if check.reason else str(check.method)
