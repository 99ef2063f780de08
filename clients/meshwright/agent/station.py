"""What a process of a measurement has at hand: its device, its place, its groups."""

from __future__ import annotations

import platform
import socket
from dataclasses import dataclass

import torch

from meshwright.agent.accelerator import Accelerator, find_accelerator
from meshwright.agent.collectives import Groups
from meshwright.agent.machine.reading import Machine
from meshwright.agent.places import Places, find_places
from meshwright.schema.agent import Agent
from meshwright.schema.model import MAX_LINE


@dataclass(frozen=True, slots=True)
class Station:
    """Found once; measurements one after another use it."""

    accelerator: Accelerator
    places: Places
    groups: Groups

    @classmethod
    def found(cls, local_rank: int) -> Station:
        """Every process of a process group asks at the same time; InvalidInput as of places."""
        accelerator = find_accelerator(local_rank)
        places = find_places(accelerator.device)
        return cls(accelerator, places, Groups(places))

    def about(self) -> dict[str, object]:
        """What samples have to share to be of one cluster."""
        return {
            "device": self.accelerator.name,
            "backend": self.accelerator.backend,
            "sizes": list(self.places.sizes),
            "torch": str(torch.__version__),
        }

    def agent(self, name: str | None = None) -> Agent:
        """How these processes register with a service, with what this machine says of itself."""
        hosts, each = self.places.sizes
        found = Machine.here().propose(hosts=hosts, each=each)
        return Agent(
            name=name or socket.gethostname(),
            backend=self.accelerator.backend,
            hosts=self.places.hosts,
            device=self.accelerator.name,
            devices=hosts * each,
            levels=found.levels,
            notes=tuple(note[:MAX_LINE] for note in found.notes),
        )

    def software(self) -> dict[str, str]:
        """Versions of what runs here."""
        found = {"torch": str(torch.__version__), "python": platform.python_version()}
        if self.accelerator.kind == "cuda":
            found["cuda"] = str(torch.version.cuda)
            version: tuple[int, ...] = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
            found["nccl"] = ".".join(map(str, version))
        return found
