"""Worlds of processes that train modules by the engine `torch`, beside one process."""

from __future__ import annotations

import json
import logging
import multiprocessing
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing as processes
from torch import nn
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

import meshwright
from meshwright.planfile import PlanFile
from meshwright.runtime.torch.fsdp2 import TrainedModule
from meshwright.runtime.torch.fsdp2.apply import REPLICAS, SHARDS, TENSOR
from meshwright.schema import (
    Constraints,
    Degrees,
    MeshwrightError,
    OptimizerParallel,
    Pipeline,
    Recompute,
    Request,
    Setup,
)
from meshwright.schema.recompute import RecomputePolicy
from meshwright_solver.planning.degrees.degrees_planner import plan_stated
from tests.runtime.torch_engine.models import MODELS
from tests.solver.small_graphs import topology, toy_calibration

ROWS, STEPS = 8, 3
T = torch.Tensor
Ran = dict[str, int]  # "kind axis" -> elements


@dataclass(frozen=True)
class Case:
    """A model under stated degrees."""

    name: str
    model: str
    degrees: dict[str, Any]
    microbatches: int = 2
    recompute: RecomputePolicy = "none"
    shard_size: int | None = None
    dtype: str = "float64"
    sizes: tuple[int, ...] = ()  # of the levels of the topology


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case on the first rank.

    loss_error, gradient_error: the largest difference from one process over all steps, the latter
    as a share of the gradient's norm. local: the elements of each parameter on the rank. ran: the
    elements of the collectives of the last step. refused: the message, where the plan is refused.
    """

    loss_error: float = 0.0
    gradient_error: float = 0.0
    worst: str = ""
    flow: str | None = None
    local: dict[str, int] = field(default_factory=dict)
    ran: Ran = field(default_factory=dict)
    refused: str = ""


def planned(case: Case, size: int) -> PlanFile:
    """The plan of a case, priced by data sheets."""
    graph = MODELS[case.model].graph(ROWS // case.microbatches)
    (dtype,) = {t.dtype for t in graph.tensors if t.role == "parameter"}
    setup = Setup(
        global_batch=ROWS,
        microbatches=case.microbatches,
        gradient_dtype=dtype,
        master_dtype=None,
        uneven="chunk",
    )
    devices = topology(*(case.sizes or (size,)))
    parallel = OptimizerParallel(threshold_kb=0, shard_size=case.shard_size)
    answer = plan_stated(
        Request(
            graph=graph,
            topology=devices,
            setup=setup,
            pipeline=Pipeline(ranks=1),
            degrees=Degrees(**case.degrees),
            constraints=Constraints(optimizer_parallel=parallel),
            recompute=Recompute(policy=case.recompute),
            calibration=toy_calibration(),
        )
    )
    assert answer.plan is not None, answer.infeasible
    return PlanFile(plan=answer.plan, graph=graph, topology=devices, setup=setup)


def run_world(size: int, cases: Sequence[Case], folder: Path) -> dict[str, Outcome]:
    """All cases in one world of processes; raises what a process raises."""
    for number, case in enumerate(cases):
        planned(case, size).write(folder / f"{number}.json")
    multiprocessing.set_forkserver_preload([__name__])
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes.start_processes(
        _rank, (size, store.port, tuple(cases), folder), nprocs=size, start_method="forkserver"
    )
    found = json.loads((folder / "outcomes.json").read_text())
    return {name: Outcome(**own) for name, own in found.items()}


def _rank(rank: int, size: int, port: int, cases: Sequence[Case], folder: Path) -> None:
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    found = {}
    for number, case in enumerate(cases):
        try:
            outcome = _trained(case, folder / f"{number}.json")
        except MeshwrightError as error:
            outcome = Outcome(refused=error.detail)
        found[case.name] = asdict(outcome)
    if rank == 0:
        (folder / "outcomes.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def _trained(case: Case, plan: Path) -> Outcome:
    model, dtype = MODELS[case.model], getattr(torch, case.dtype)
    torch.manual_seed(0)
    alone = model.build().to(dtype)
    # every rank starts from values of its own: those of the first count
    torch.manual_seed(dist.get_rank())
    module = model.build().to(dtype)
    names = tuple(module.state_dict())
    with meshwright.parallelize(module, plan, engine="torch") as trained:
        assert trained.module is module
        local = {name: _local(own).numel() for name, own in trained.named_parameters()}
        assert names == tuple(module.state_dict())
        # eps: gradients that are zero but for rounding must not become steps
        optimizers = [
            torch.optim.AdamW(own.parameters(), lr=1e-2, eps=1e-6) for own in (alone, trained)
        ]
        loss_error, errors, ran = 0.0, {"": 0.0}, Ran()
        for step in range(STEPS):
            torch.manual_seed(step)
            batch = {
                name: own.to(dtype) if own.is_floating_point() else own
                for name, own in model.batch(ROWS).items()
            }
            output = alone(**batch)
            wanted = output if isinstance(output, T) else output[0]
            wanted.backward()
            with Collectives(trained) as log:
                found = trained.step(**trained.slice(batch))
            ran = dict(log.elements)
            loss_error = max(loss_error, float((found - wanted.detach()).abs()))
            errors |= _errors(alone, trained)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    worst = max(errors, key=lambda name: errors[name])
    return Outcome(loss_error, errors[worst], worst, trained.flow, local, ran)


def _errors(alone: nn.Module, trained: TrainedModule) -> dict[str, float]:
    """The difference of each gradient from that of one process, as a share of the whole norm."""
    wanted = {name: own.grad for name, own in alone.named_parameters() if own.grad is not None}
    whole = torch.cat([own.flatten() for own in wanted.values()]).norm()
    found = {name: own.grad for name, own in trained.named_parameters()}
    assert wanted.keys() <= found.keys()
    errors = {}
    for name, own in wanted.items():
        gradient = found[name]
        assert gradient is not None, name
        gathered = gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
        size = max(own.norm(), 1e-3 * whole)
        errors[name] = float((gathered - own).norm() / size)
    return errors


def _local(tensor: T) -> T:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


class Collectives(TorchDispatchMode):
    """The elements of all collectives that run, by kind and axis of the mesh.

    Of an all-gather they are those of its result on a rank, of others those of its input.
    """

    _KINDS = (
        ("allgather", "all_gather"), ("all_gather", "all_gather"),
        ("reduce_scatter", "reduce_scatter"), ("allreduce", "all_reduce"),
        ("all_reduce", "all_reduce"), ("alltoall", "all_to_all"), ("all_to_all", "all_to_all"),
    )  # fmt: skip

    def __init__(self, trained: TrainedModule) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        groups = {name: trained.mesh.get_group(name) for name in (REPLICAS, SHARDS, TENSOR)}
        self._axes = {group.group_name: name for name, group in groups.items() if group.size() > 1}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.name()
        if name.startswith(("c10d::", "_c10d_functional")):
            kind = next((kind for part, kind in self._KINDS if part in name), None)
            group = self._group(args)
            if kind is not None and group in self._axes:
                of = result if kind == "all_gather" else args
                self.elements[f"{kind} {self._axes[group]}"] += _elements(kind, name, args, of)
        return result

    def _group(self, args: Any) -> str:
        for own in args:
            if isinstance(own, str) and own in self._axes:
                return own
            if isinstance(own, torch.ScriptObject):
                try:
                    return dist.ProcessGroup.unbox(own).group_name
                except RuntimeError:
                    continue
        return ""


def _elements(kind: str, name: str, args: Any, result: Any) -> int:
    if name.startswith("_c10d_functional"):
        return int((result if kind == "all_gather" else args[0]).numel())
    tensors = args[:2] if kind != "all_reduce" else args[0]
    sizes = [own.numel() for own in tensors if isinstance(own, T)]
    return max(sizes, default=0) if kind != "all_reduce" else sum(sizes)


def expected(file: PlanFile) -> Ran:
    """The elements of a step's collectives by the plan, by kind and axis."""
    (stage,), graph = file.plan.stages, file.graph
    assert graph is not None
    found: Counter[str] = Counter()
    for moved in stage.redistributions:
        tensor = graph.tensor(moved.tensor)
        width = torch.empty((), dtype=getattr(torch, tensor.dtype)).element_size()
        times = file.plan.microbatches
        for steps, count in (
            (moved.forward, times * (1 + moved.again)),
            (moved.backward, times),
            (moved.per_step, 1),
        ):
            for step in steps:
                if step.kind not in ("slice", "mask"):
                    key = f"{step.kind} {'+'.join(step.axes)}"
                    found[key] += count * step.payload_bytes // width
    return dict(found)


def at_rest(file: PlanFile) -> dict[str, int]:
    """The elements of each parameter on a device between steps, by the plan."""
    (stage,) = file.plan.stages
    return {
        parameter.tensor: prod((parameter.gradient or parameter.value).local_shape(stage.mesh))
        for parameter in stage.parameters
    }
