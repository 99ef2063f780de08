"""Context of a measuring process: its device, its rank grid and its groups."""

from __future__ import annotations

import platform
import socket
from dataclasses import dataclass

import torch

from meshwright.agent.accelerator import Accelerator, find_accelerator
from meshwright.agent.collectives import GroupCache
from meshwright.agent.machine.reading import Machine
from meshwright.agent.rank_placement import RankGrid, find_places
from meshwright.schema.agent import Agent
from meshwright.schema.model import MAX_LINE


@dataclass(frozen=True, slots=True)
class Station:
    """The device, rank grid and groups of a process, shared by successive measurements."""

    accelerator: Accelerator
    places: RankGrid
    groups: GroupCache

    @classmethod
    def found(cls, local_rank: int) -> Station:
        """Detect the context; all processes must call it together. Raises as `find_places`."""
        accelerator = find_accelerator(local_rank)
        places = find_places(accelerator.device)
        return cls(accelerator, places, GroupCache(places))

    def about(self) -> dict[str, object]:
        """The properties that samples of one cluster share."""
        return {
            "device": self.accelerator.name,
            "backend": self.accelerator.backend,
            "sizes": list(self.places.sizes),
            "torch": str(torch.__version__),
        }

    def agent(self, name: str | None = None) -> Agent:
        """The registration of these processes with a service, with this machine's levels."""
        hosts, devices_per_host = self.places.sizes
        proposal = Machine.here().propose(hosts=hosts, each=devices_per_host)
        return Agent(
            name=name or socket.gethostname(),
            backend=self.accelerator.backend,
            hosts=self.places.hosts,
            device=self.accelerator.name,
            devices=hosts * devices_per_host,
            levels=proposal.levels,
            notes=tuple(note[:MAX_LINE] for note in proposal.notes),
        )

    def software(self) -> dict[str, str]:
        """The versions of the software of this process."""
        versions = {"torch": str(torch.__version__), "python": platform.python_version()}
        if self.accelerator.kind == "cuda":
            versions["cuda"] = str(torch.version.cuda)
            version: tuple[int, ...] = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
            versions["nccl"] = ".".join(map(str, version))
        return versions
