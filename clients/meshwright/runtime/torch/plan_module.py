"""Plans of a PyTorch module: capture and search in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store  # typed here only

from meshwright.capture import capture_module
from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.common.process_pool import processes
from meshwright.planfile import PlanFile
from meshwright.plugins.planner import find_planner, planner_modules, preset
from meshwright.runtime.torch.start_up import rendezvous
from meshwright.schema import (
    Answer,
    Budget,
    Graph,
    Infeasible,
    InvalidInput,
    PlanError,
    Request,
    Setup,
    Topology,
)
from meshwright.schema.graph import DType
from meshwright.schema.target import Target, setup_for

T = torch.Tensor
_stores: list[Store] = []  # of ranks that others may still read from


def plan(
    module: torch.nn.Module,
    batch: Mapping[str, T],
    *,
    topology: str | Path | Topology,
    target: Target | None = "fsdp2",
    setup: Setup | None = None,
    dtype: DType | None = None,
    autocast: DType | None = None,
    seconds: float = 30.0,
    workers: int = 1,
    server: str | None = None,
    name: str = "",
) -> PlanFile:
    """The fastest plan found for a module, with the documents that it was made for.

    module: as it is trained; its forward returns the loss, or a tuple that begins with it. On the
    meta device, it needs no memory.
    batch: an example of a whole step, by the names of the forward's arguments. Dims of the length
    of the first tensor's first dim are the batch.
    topology: a preset such as `h100-8x8`, a file or a document.
    target: the framework that runs the plan; None searches all strategies.
    setup: further choices of the training, such as the number of microbatches.
    dtype, autocast: as in `capture_module`.
    seconds: the time limit of the search.
    workers: processes that search, without a server.
    server: the URL of a service that searches and keeps the plan.

    In a job of several ranks, the first one plans and the others receive its plan. Raises PlanError
    with the binding constraint if no plan fits.
    """

    def make() -> PlanFile:
        rows = _rows(batch)
        wanted = (setup or Setup()).model_copy(update={"global_batch": rows})
        wanted = setup_for(target, wanted)
        graph = capture_module(
            module,
            lambda sizes: {
                key: _resized(value, rows, sizes["batch"]) for key, value in batch.items()
            },
            symbols={"batch": rows},
            name=name or type(module).__name__,
            dtype=dtype,
            autocast=autocast,
        )
        if server is None:
            return _searched(graph, _topology(topology), wanted, target, seconds, workers)
        return _asked(server, graph, topology, wanted, target, seconds)

    return of_first_rank(make)


def of_first_rank(make: Callable[[], PlanFile]) -> PlanFile:
    """The plan file that the first rank of the job makes. PlanError on the others if it fails."""
    if dist.is_initialized():
        if dist.get_world_size() == 1:
            return make()
        world = dist.group.WORLD
        assert world is not None
        return _shared(make, world.get_group_store(), dist.get_rank())
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return make()
    store, rank, _ = rendezvous(3600)
    _stores.append(store)
    return _shared(make, store, rank)


def _shared(make: Callable[[], PlanFile], store: Any, rank: int) -> PlanFile:
    number = store.add(f"meshwright/plans/{rank}", 1)
    key = f"meshwright/plan/{number}"
    if rank:
        store.wait([key])
        text = store.get(key).decode()
        if not text.startswith("{"):
            raise PlanError(f"the first rank has no plan: {text}")
        return PlanFile.from_json(text)
    try:
        found = make()
    except Exception as error:
        store.set(key, str(error))
        raise
    store.set(key, found.to_json())
    return found


def _rows(batch: Mapping[str, T]) -> int:
    first = next(iter(batch.values()), None)
    if first is None or not first.ndim:
        raise InvalidInput("the example batch has no tensor with a batch dim. Give a whole batch")
    return first.shape[0]


def _resized(value: T, rows: int, count: int) -> T:
    """A tensor on the meta device, of another number of rows if it has those of the batch."""
    shape = list(value.shape)
    if shape and shape[0] == rows:
        shape[0] = count
    return torch.empty(shape, dtype=value.dtype, device="meta")


def _topology(topology: str | Path | Topology) -> Topology:
    if isinstance(topology, Topology):
        return topology
    path = Path(topology)
    return read_document(path, Topology) if path.is_file() else preset(str(topology))


def _searched(
    graph: Graph,
    topology: Topology,
    setup: Setup,
    target: Target | None,
    seconds: float,
    workers: int,
) -> PlanFile:
    request = Request(
        graph=graph,
        topology=topology,
        setup=setup,
        target=target,
        budget=Budget(seconds=seconds),
    )
    planner = find_planner()
    with processes(workers, planner_modules()) as executor:
        answer = planner(request) if executor is None else planner(request, executor=executor)
    return _found(answer, graph, topology, setup)


def _asked(
    server: str,
    graph: Graph,
    topology: str | Path | Topology,
    setup: Setup,
    target: Target | None,
    seconds: float,
) -> PlanFile:
    """The plan that a service finds and keeps."""
    is_document = isinstance(topology, Topology) or Path(topology).is_file()
    cluster = _topology(topology) if is_document else str(topology)
    with Client(server) as client:
        answer = client.plan(
            graph, cluster, setup=setup, target=target, budget=Budget(seconds=seconds)
        )
        stored = None if answer.plan is None else client.get_topology(answer.plan.topology)
    return _found(answer, graph, stored, setup)


def _found(answer: Answer, graph: Graph, topology: Topology | None, setup: Setup) -> PlanFile:
    if answer.plan is None:
        why: Infeasible | None = answer.infeasible
        raise PlanError(f"no plan fits: {'' if why is None else f'{why.constraint}: {why.detail}'}")
    return PlanFile(plan=answer.plan, graph=graph, topology=topology, setup=setup)
