"""Rank placement: hosts and processes of a measurement, and their groups."""

from __future__ import annotations

import math
import socket
from collections import Counter
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from meshwright.agent.torch_names import gather_into
from meshwright.schema import InvalidInput

HOST_BYTES = 256


@dataclass(frozen=True, slots=True)
class RankGrid:
    """A grid of ranks: `sizes` are hosts and processes per host, the latter varying fastest.

    hosts: the host names.
    """

    sizes: tuple[int, int]
    hosts: tuple[str, ...] = field(default=(), compare=False)

    def groups(self, extents: tuple[int, ...]) -> list[list[int]]:
        """The ranks of each group with these extents; the groups partition all ranks.

        Adjacent ranks form a group if an extent is less than the level's size.
        """
        groups: dict[tuple[int, ...], list[int]] = {}
        for rank in range(math.prod(self.sizes)):
            place = divmod(rank, self.sizes[1])
            key = tuple(at // extent for at, extent in zip(place, extents, strict=True))
            groups.setdefault(key, []).append(rank)
        return list(groups.values())


def find_places(device: torch.device) -> RankGrid:
    """The rank grid; InvalidInput for hosts of different sizes or with interleaved ranks."""
    name = socket.gethostname().encode()[:HOST_BYTES].ljust(HOST_BYTES, b"\0")
    local = torch.frombuffer(bytearray(name), dtype=torch.uint8).to(device)
    every = torch.empty(dist.get_world_size() * HOST_BYTES, dtype=torch.uint8, device=device)
    gather_into(every, local)
    rows = every.cpu().reshape(-1, HOST_BYTES).tolist()
    hosts = [bytes(row).rstrip(b"\0").decode(errors="replace") for row in rows]
    return places_of(hosts)


def places_of(hosts: list[str]) -> RankGrid:
    """The rank grid of these hosts, one per rank; InvalidInput as `find_places`."""
    counts = Counter(hosts)
    if len(set(counts.values())) > 1:
        counts_text = ", ".join(f"{host}: {count}" for host, count in sorted(counts.items()))
        raise InvalidInput(
            f"the numbers of processes per host differ: {counts_text}. Start equal numbers"
        )
    processes_per_host = next(iter(counts.values()))
    for start in range(0, len(hosts), processes_per_host):
        if len(set(hosts[start : start + processes_per_host])) > 1:
            raise InvalidInput(
                "the ranks of a host are not consecutive. Start with torchrun, or with "
                f"mpirun --map-by core. Got the hosts {', '.join(hosts[:16])}"
            )
    return RankGrid((len(counts), processes_per_host), tuple(counts))
