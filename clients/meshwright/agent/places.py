"""Where the processes of a measurement are, and the groups that they form."""

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
class Places:
    """sizes: hosts, then processes of a host; ranks count with the last varying fastest.

    hosts: their names.
    """

    sizes: tuple[int, int]
    hosts: tuple[str, ...] = field(default=(), compare=False)

    def groups(self, extents: tuple[int, ...]) -> list[list[int]]:
        """Ranks of the groups with these extents, which together are all ranks.

        Where an extent is less than its level's size, neighbours belong together.
        """
        found: dict[tuple[int, ...], list[int]] = {}
        for rank in range(math.prod(self.sizes)):
            place = divmod(rank, self.sizes[1])
            key = tuple(at // extent for at, extent in zip(place, extents, strict=True))
            found.setdefault(key, []).append(rank)
        return list(found.values())


def find_places(device: torch.device) -> Places:
    """Hosts and processes a host; InvalidInput where hosts differ or their ranks are mixed."""
    name = socket.gethostname().encode()[:HOST_BYTES].ljust(HOST_BYTES, b"\0")
    own = torch.frombuffer(bytearray(name), dtype=torch.uint8).to(device)
    every = torch.empty(dist.get_world_size() * HOST_BYTES, dtype=torch.uint8, device=device)
    gather_into(every, own)
    rows = every.cpu().reshape(-1, HOST_BYTES).tolist()
    hosts = [bytes(row).rstrip(b"\0").decode(errors="replace") for row in rows]
    return places_of(hosts)


def places_of(hosts: list[str]) -> Places:
    """From the host of each rank."""
    counts = Counter(hosts)
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{host}: {count}" for host, count in sorted(counts.items()))
        raise InvalidInput(f"every host needs as many processes as the others; found {said}")
    each = next(iter(counts.values()))
    for start in range(0, len(hosts), each):
        if len(set(hosts[start : start + each])) > 1:
            raise InvalidInput(
                "ranks of one host must follow each other; start with torchrun, or with "
                f"mpirun --map-by core. Found hosts {', '.join(hosts[:16])}"
            )
    return Places((len(counts), each), tuple(counts))
