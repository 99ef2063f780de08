"""Worlds of real processes: each started once, all its cases run in it."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing as processes
from torch.distributed.tensor import DTensor

import meshwright
from meshwright.runtime.torch import LoggedCollective, Trained
from meshwright.runtime.torch.module_check import Method
from tests.runtime.models import MODELS, Model

# chosen: a gradient that is zero but for rounding (of a bias before a norm), as a share of all
ZERO = 1e-12
ROWS = 8
T = torch.Tensor


@dataclass(frozen=True)
class Case:
    """The id of a plan, or its file, and the model that it is of."""

    name: str
    model: str
    plan: str
    dtype: str
    steps: int


@dataclass(frozen=True)
class Outcome:
    """Of one case: the largest difference of a loss, and of a gradient as a share of its norm, and
    where; what ran in the last step, by rank, and what fell back on rank 0.

    parameter_error: of the parameters after the last step; those of own stages through DTensors,
    where they are some; why_plain: why not.
    saved_bytes: what a microbatch keeps for its backward pass on rank 0.
    """

    loss_error: float
    gradient_error: float
    worst: str
    ran: tuple[tuple[LoggedCollective, ...], ...]
    fallen_back: dict[str, str]
    parameter_error: float
    saved_bytes: int
    why_plain: str


def run_world(
    size: int, cases: Sequence[Case], folder: Path, service: str, example: str = ""
) -> dict[str, Outcome]:
    """All cases in one world of processes; raises what a process raises.

    service: URL of the one that has the plans. Each rank keeps what it got in `cache/RANK`.
    example: a program that is run after them, in the folder, with `model` and `batches`.
    """
    multiprocessing.set_forkserver_preload([__name__])
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes.start_processes(
        _rank,
        (size, store.port, tuple(cases), folder, service, example),
        nprocs=size,
        start_method="forkserver",
    )
    found = json.loads((folder / "outcomes.json").read_text())
    return {name: _outcome(own) for name, own in found.items()}


def _rank(
    rank: int, size: int, port: int, cases: Sequence[Case], folder: Path, service: str, example: str
) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    cache = folder / "cache" / str(rank)
    found = {}
    checked: set[tuple[str, str]] = set()
    for case in cases:
        # the module of a model is compared with its graph once: the graphs differ by rows alone
        check: Method = "none" if (case.model, case.dtype) in checked else "graph"
        checked.add((case.model, case.dtype))
        found[case.name] = asdict(_trained(case, service, cache, check))
    os.chdir(folder)
    if example:
        model = MODELS[cases[0].model]
        batches = [model.batch(ROWS) for _ in range(2)]
        exec(example, {"model": model.build().double(), "batches": batches})
    if rank == 0:
        (folder / "outcomes.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def _trained(case: Case, service: str, cache: Path, check: Method) -> Outcome:
    """Its steps beside a single process, with the same optimizer."""
    model = MODELS[case.model]
    torch.manual_seed(0)
    dtype = getattr(torch, case.dtype)
    alone = model.build().to(dtype)
    # every rank starts from values of its own: those of the first count
    torch.manual_seed(dist.get_rank())
    module = model.build().to(dtype)
    with meshwright.parallelize(
        module, case.plan, server=service, cache=cache, check_module=check
    ) as trained:
        assert trained.module_check.method == check
        # eps: gradients that are zero but for rounding must not become steps
        optimizers = [
            torch.optim.AdamW(own.parameters(), lr=1e-2, eps=1e-6) for own in (alone, trained)
        ]
        return _compared(model, alone, trained, optimizers, case.steps)


def _compared(
    model: Model,
    alone: torch.nn.Module,
    trained: Trained,
    optimizers: Sequence[torch.optim.Optimizer],
    steps: int,
) -> Outcome:
    is_first = dist.get_rank() == 0
    loss_error, errors = 0.0, {"": 0.0}
    for step in range(steps):
        torch.manual_seed(step)
        batch = model.batch(ROWS)
        trained.record.ran.clear()
        for optimizer in optimizers:
            optimizer.zero_grad()
        found = trained.step(**trained.slice(batch))
        ran = tuple(trained.record.ran)
        wanted = _alone(model, alone, batch, trained.strategy.microbatches) if is_first else found
        loss_error = max(loss_error, float((found - wanted).abs()))
        gradients = [own.grad for own in alone.parameters() if own.grad is not None]
        overall = torch.cat([own.flatten() for own in gradients]).norm() if is_first else 0.0
        for name, parameter in alone.named_parameters():
            gradient = trained.whole_gradient(name)
            if is_first:
                assert gradient is not None
                assert parameter.grad is not None
                size = float(parameter.grad.norm())
                size = size if size > ZERO * overall else float(overall)
                assert parameter.grad.isfinite().all(), name
                assert gradient.isfinite().all(), name
                difference = float((gradient - parameter.grad).norm())
                errors[f"{name} at step {step}"] = difference / size
        for optimizer in optimizers:
            optimizer.step()
    worst = max(errors, key=lambda name: errors[name])
    left = _parameter_error(alone, trained, optimizers[1])
    return Outcome(
        loss_error,
        errors[worst],
        worst,
        _of_all_ranks(ran),
        dict(trained.fallen_back),
        left,
        trained.record.saved_bytes,
        trained.why_plain,
    )


def _parameter_error(
    alone: torch.nn.Module, trained: Trained, optimizer: torch.optim.Optimizer
) -> float:
    own = {}
    for name, parameter in trained.named_parameters():
        if not trained.why_plain:
            assert isinstance(parameter, DTensor)
            assert isinstance(optimizer.state[parameter]["exp_avg"], DTensor)
            own[name] = parameter.detach().full_tensor()
    largest = 0.0
    for name, wanted in alone.named_parameters():
        whole = trained.whole(name)
        assert name not in own or torch.equal(own[name], whole)
        largest = max(largest, float((whole - wanted.detach()).norm() / wanted.detach().norm()))
    return largest


def _of_all_ranks(ran: tuple[LoggedCollective, ...]) -> tuple[tuple[LoggedCollective, ...], ...]:
    found: list[tuple[LoggedCollective, ...]] = [()] * dist.get_world_size()
    dist.all_gather_object(found, ran)
    return tuple(found)


def _alone(model: Model, module: torch.nn.Module, batch: dict[str, T], microbatches: int) -> T:
    total = torch.zeros((), dtype=torch.float64)
    parts = [own.chunk(microbatches) for own in batch.values()]
    for values in zip(*parts, strict=True):
        loss = model.loss(module, dict(zip(batch, values, strict=True))) / microbatches
        loss.backward()
        total += loss.detach()
    return total


def _outcome(own: dict[str, Any]) -> Outcome:
    ran = tuple(
        tuple(
            LoggedCollective(**{**one, "axes": tuple(one["axes"]), "ranks": tuple(one["ranks"])})
            for one in of_rank
        )
        for of_rank in own["ran"]
    )
    return Outcome(**{**own, "ran": ran})
