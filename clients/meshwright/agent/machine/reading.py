"""Reading of the local machine through commands and files, and its proposed levels."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from meshwright.agent.machine.cards import QUERY, Card, read_gpus, read_npus
from meshwright.agent.machine.levels import ProposedLevels, propose_levels, propose_network
from meshwright.agent.machine.matrix import Matrix, read_matrix
from meshwright.agent.machine.network import NetworkPort, fastest, read_infiniband, read_interface
from meshwright.agent.machine.numa import node_of
from meshwright.schema import InvalidInput
from meshwright.schema.agent import FoundLevel

PATIENCE_S = 20.0  # chosen: timeout of a driver's command, which takes seconds after sleep
SYS = Path("/sys")


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine: its cards, its link matrix, its ports and the CPUs of its NUMA nodes."""

    cards: tuple[Card, ...] = ()
    matrix: Matrix | None = None
    ports: tuple[NetworkPort, ...] = ()
    nodes: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def here(cls, sys: Path = SYS) -> Machine:
        """The local machine; values that no command or file provides are missing."""
        notes: list[str] = []
        cards = read_gpus(_output("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv"))
        matrix = _matrix(("nvidia-smi", "topo", "-m"), notes) if cards else None
        if not cards:
            cards = read_npus(_output("npu-smi", "info"))
            matrix = _matrix(("npu-smi", "info", "-t", "topo"), notes) if cards else None
        return cls(cards, matrix, _ports(sys), _nodes(sys), tuple(notes))

    def propose(self, *, hosts: int, each: int) -> ProposedLevels:
        """The levels of `hosts` such machines with `each` processes, slowest first."""
        notes = list(self.notes)
        levels: tuple[FoundLevel, ...] = ()
        if self.matrix is not None and len(self.matrix.devices) == each:
            proposal = propose_levels(self.matrix, self.cards[0])
            levels, notes = proposal.levels, [*notes, *proposal.notes, *self._numa_notes()]
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
        return ProposedLevels(levels, tuple(notes))

    def _numa_notes(self) -> list[str]:
        """Notes about the devices near each NUMA node."""
        assert self.matrix is not None
        near: dict[int, list[str]] = {}
        for device, affinity in zip(self.matrix.devices, self.matrix.affinity, strict=True):
            node = node_of(affinity, dict(self.nodes))
            if node is not None:
                near.setdefault(node, []).append(device)
        return [f"near NUMA node {node}: {', '.join(near[node])}" for node in sorted(near)]


def _matrix(command: Sequence[str], notes: list[str]) -> Matrix | None:
    try:
        return read_matrix(_output(*command))
    except InvalidInput as failure:
        notes.append(f"{' '.join(command)}: {failure.detail}")
        return None


def _output(*command: str) -> str:
    """The output of a command; "" for a missing or failing command."""
    try:
        process = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout.decode(errors="replace") if process.returncode == 0 else ""


def _ports(sys: Path) -> tuple[NetworkPort, ...]:
    infiniband = [
        read_infiniband(
            f"{port.parts[-3]}/{port.name}", _files(port, "state", "rate", "link_layer")
        )
        for port in sorted(sys.glob("class/infiniband/*/ports/*"))
    ]
    ports = tuple(port for port in infiniband if port is not None)
    if ports:
        return ports
    interfaces = [
        read_interface(folder.name, _files(folder, "operstate", "speed"))
        for folder in sorted(sys.glob("class/net/*"))
    ]
    return tuple(port for port in interfaces if port is not None)


def _nodes(sys: Path) -> tuple[tuple[int, str], ...]:
    folders = sys.glob("devices/system/node/node[0-9]*")
    nodes = (
        (int(folder.name.removeprefix("node")), _files(folder, "cpulist")) for folder in folders
    )
    return tuple(sorted((node, files.get("cpulist", "").strip()) for node, files in nodes))


def _files(folder: Path, *names: str) -> dict[str, str]:
    texts = {}
    for name in names:
        try:
            texts[name] = (folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:  # the speed of an interface that is down cannot be read
            continue
    return texts
