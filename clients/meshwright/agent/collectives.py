"""Timing of collectives among the processes of a measurement."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from meshwright.agent.accelerator import Accelerator
from meshwright.agent.rank_placement import RankGrid
from meshwright.agent.tasks import CollectiveTask
from meshwright.agent.timing import MAX_RUNS, MIN_RUNS
from meshwright.agent.torch_names import gather_into, scatter_into

ELEMENT_BYTES = 4  # of float32
NS_PER_S = 1e9


class GroupCache:
    """Cache of this rank's process groups by extents; creating a group is a collective."""

    def __init__(self, places: RankGrid) -> None:
        self._places = places
        self._groups: dict[tuple[int, ...], dist.ProcessGroup] = {}

    def of(self, extents: tuple[int, ...]) -> dist.ProcessGroup:
        """The group with these extents; all ranks must call it in the same order."""
        if extents not in self._groups:
            ranks = self._places.groups(extents)
            groups = [(members, dist.new_group(members)) for members in ranks]
            self._groups[extents] = next(
                group for members, group in groups if dist.get_rank() in members
            )
        return self._groups[extents]


def measure_collective(
    task: CollectiveTask, groups: GroupCache, accelerator: Accelerator, *, seconds: float
) -> list[float]:
    """Time of each run on the slowest rank, in ns; all ranks must call it together."""
    work = _work(task, groups.of(task.extents), accelerator.device)
    trial = _one_run(work, accelerator), _one_run(work, accelerator)
    (typical_ns,) = _max_over_ranks([min(trial)], accelerator)
    count = max(MIN_RUNS, min(MAX_RUNS, int(seconds * NS_PER_S / typical_ns)))
    return _max_over_ranks([_one_run(work, accelerator) for _ in range(count)], accelerator)


def _one_run(work: Callable[[], object], accelerator: Accelerator) -> float:
    """Time of one run on this rank after a barrier, in ns."""
    dist.barrier()
    accelerator.synchronize()
    started = time.perf_counter_ns()
    work()
    accelerator.synchronize()
    return float(time.perf_counter_ns() - started)


def _max_over_ranks(numbers: list[float], accelerator: Accelerator) -> list[float]:
    """The elementwise maximum over all ranks."""
    values = torch.tensor(numbers, dtype=torch.float64, device=accelerator.device)
    dist.all_reduce(values, op=dist.ReduceOp.MAX)
    return [float(value) for value in values.cpu()]


def _work(
    task: CollectiveTask, group: dist.ProcessGroup, device: torch.device
) -> Callable[[], object]:
    members = math.prod(task.extents)
    whole = max(members, task.payload_bytes // ELEMENT_BYTES // members * members)
    part = whole // members
    full = torch.ones(whole, device=device)
    piece = torch.ones(part, device=device)
    first = dist.get_process_group_ranks(group)[0]
    match task.kind:
        case "all_reduce":
            return lambda: dist.all_reduce(full, group=group)
        case "all_gather":
            return lambda: gather_into(full, piece, group=group)
        case "reduce_scatter":
            return lambda: scatter_into(piece, full, group=group)
        case "all_to_all":
            other = torch.empty_like(full)
            return lambda: dist.all_to_all_single(other, full, group=group)
        case "broadcast":
            return lambda: dist.broadcast(full, first, group=group)
        case "send":
            sends = dist.get_rank() == first
            partner = dist.get_process_group_ranks(group)[1]
            if sends:
                return lambda: dist.send(full, partner, group=group)
            return lambda: dist.recv(full, first, group=group)
