"""The machine at hand: its commands run, its files opened, and a topology proposed of them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from meshwright.agent.machine.cards import QUERY, Card, read_gpus, read_npus
from meshwright.agent.machine.levels import Proposal, propose_levels, propose_network
from meshwright.agent.machine.matrix import Matrix, read_matrix
from meshwright.agent.machine.network import Port, fastest, read_infiniband, read_interface
from meshwright.agent.machine.numa import node_of
from meshwright.schema import InvalidInput
from meshwright.schema.agent import FoundLevel

PATIENCE_S = 20.0  # of a driver's command; chosen: it takes seconds where a driver sleeps
SYS = Path("/sys")


@dataclass(frozen=True, slots=True)
class Machine:
    """cards: of it, none where it has only CPUs. matrix: None where nothing prints one.

    nodes: CPUs of its NUMA nodes.
    """

    cards: tuple[Card, ...] = ()
    matrix: Matrix | None = None
    ports: tuple[Port, ...] = ()
    nodes: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def here(cls, sys: Path = SYS) -> Machine:
        """This one; what a command or a file does not say is missing."""
        notes: list[str] = []
        cards = read_gpus(_said("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv"))
        matrix = _matrix(("nvidia-smi", "topo", "-m"), notes) if cards else None
        if not cards:
            cards = read_npus(_said("npu-smi", "info"))
            matrix = _matrix(("npu-smi", "info", "-t", "topo"), notes) if cards else None
        return cls(cards, matrix, _ports(sys), _nodes(sys), tuple(notes))

    def propose(self, *, hosts: int, each: int) -> Proposal:
        """The levels of so many such machines with so many processes each, slowest first."""
        notes = list(self.notes)
        levels: tuple[FoundLevel, ...] = ()
        if self.matrix is not None and len(self.matrix.devices) == each:
            own = propose_levels(self.matrix, self.cards[0])
            levels, notes = own.levels, [*notes, *own.notes, *self._near()]
        elif each > 1:
            nodes = f"; the machine has {len(self.nodes)} NUMA nodes" if self.nodes else ""
            source = f"processes of one machine, only measuring tells{nodes}"
            levels = (FoundLevel(name="device", size=each, link="host", source=source),)
            if self.matrix is not None:
                notes.append(f"{len(self.matrix.devices)} devices are here, {each} are measured")
        network = propose_network(hosts, each, self.ports)
        if hosts > 1:
            levels = (network, *levels)
        elif fastest(self.ports):
            speed = (network.bytes_per_s or 0.0) / 1e9
            notes.append(f"between such machines {speed:.3g} GB/s a device: {network.source}")
        return Proposal(levels, tuple(notes))

    def _near(self) -> list[str]:
        """Which devices are near which NUMA node."""
        assert self.matrix is not None
        near: dict[int, list[str]] = {}
        for device, affinity in zip(self.matrix.devices, self.matrix.affinity, strict=True):
            node = node_of(affinity, dict(self.nodes))
            if node is not None:
                near.setdefault(node, []).append(device)
        return [f"near NUMA node {node}: {', '.join(near[node])}" for node in sorted(near)]


def _matrix(command: Sequence[str], notes: list[str]) -> Matrix | None:
    try:
        return read_matrix(_said(*command))
    except InvalidInput as failure:
        notes.append(f"{' '.join(command)}: {failure.detail}")
        return None


def _said(*command: str) -> str:
    """What a command prints; "" where it is not there or fails."""
    try:
        ran = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.decode(errors="replace") if ran.returncode == 0 else ""


def _ports(sys: Path) -> tuple[Port, ...]:
    found = [
        read_infiniband(
            f"{port.parts[-3]}/{port.name}", _files(port, "state", "rate", "link_layer")
        )
        for port in sorted(sys.glob("class/infiniband/*/ports/*"))
    ]
    ports = tuple(own for own in found if own is not None)
    if ports:
        return ports
    interfaces = [
        read_interface(own.name, _files(own, "operstate", "speed"))
        for own in sorted(sys.glob("class/net/*"))
    ]
    return tuple(own for own in interfaces if own is not None)


def _nodes(sys: Path) -> tuple[tuple[int, str], ...]:
    folders = sys.glob("devices/system/node/node[0-9]*")
    found = ((int(own.name.removeprefix("node")), _files(own, "cpulist")) for own in folders)
    return tuple(sorted((node, files.get("cpulist", "").strip()) for node, files in found))


def _files(folder: Path, *names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = (folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:  # an interface that is down refuses to say its speed
            continue
    return found
