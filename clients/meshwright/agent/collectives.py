"""Collectives among the processes of a measurement."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from meshwright.agent.accelerator import Accelerator
from meshwright.agent.places import Places
from meshwright.agent.tasks import Collective
from meshwright.agent.timing import MAX_RUNS, MIN_RUNS
from meshwright.agent.torch_names import gather_into, scatter_into

ELEMENT_BYTES = 4  # of float32
NS_PER_S = 1e9


class Groups:
    """This rank's group for every extents, made once: making one is a collective itself."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._made: dict[tuple[int, ...], dist.ProcessGroup] = {}

    def of(self, extents: tuple[int, ...]) -> dist.ProcessGroup:
        """All ranks ask for the same extents in the same order."""
        if extents not in self._made:
            ranks = self._places.groups(extents)
            made = [(own, dist.new_group(own)) for own in ranks]
            self._made[extents] = next(group for own, group in made if dist.get_rank() in own)
        return self._made[extents]


def measure_collective(
    own: Collective, groups: Groups, accelerator: Accelerator, *, seconds: float
) -> list[float]:
    """ns of each run, as long as the slowest rank took. Every rank calls it at the same time."""
    work = _work(own, groups.of(own.extents), accelerator.device)
    trial = _one_run(work, accelerator), _one_run(work, accelerator)
    (usual,) = _largest([min(trial)], accelerator)
    count = max(MIN_RUNS, min(MAX_RUNS, int(seconds * NS_PER_S / usual)))
    return _largest([_one_run(work, accelerator) for _ in range(count)], accelerator)


def _one_run(work: Callable[[], object], accelerator: Accelerator) -> float:
    """ns on this rank, from when all ranks were ready."""
    dist.barrier()
    accelerator.synchronize()
    started = time.perf_counter_ns()
    work()
    accelerator.synchronize()
    return float(time.perf_counter_ns() - started)


def _largest(numbers: list[float], accelerator: Accelerator) -> list[float]:
    """Element by element, over all ranks."""
    values = torch.tensor(numbers, dtype=torch.float64, device=accelerator.device)
    dist.all_reduce(values, op=dist.ReduceOp.MAX)
    return [float(value) for value in values.cpu()]


def _work(own: Collective, group: dist.ProcessGroup, device: torch.device) -> Callable[[], object]:
    members = math.prod(own.extents)
    whole = max(members, own.payload_bytes // ELEMENT_BYTES // members * members)
    part = whole // members
    full = torch.ones(whole, device=device)
    piece = torch.ones(part, device=device)
    first = dist.get_process_group_ranks(group)[0]
    match own.kind:
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
