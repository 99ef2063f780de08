"""Levels of a machine: groups of devices by kind of link, from fast to slow.

Devices connected by links of a kind, or faster ones, form groups. Groups of one size with
consecutive devices are a level. Other groups are skipped with a note, and the next slower kind
decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from meshwright.agent.machine.cards import Card
from meshwright.agent.machine.links import hccs, nvlinks, pcie_bytes_per_s
from meshwright.agent.machine.matrix import Matrix
from meshwright.agent.machine.network import NetworkPort, fastest
from meshwright.schema.agent import FoundLevel

# kinds of links, the fastest first; kinds of one tuple form one level
RANKS = (
    ("SIO",), ("NV", "HCCS", "HCCS_SW"), ("PIX", "PIB"), ("PXB",), ("PHB", "NODE"),
    ("SYS", "SOC", "NA"),
)  # fmt: skip
NAMES = ("package", "gpu", "switch", "switches", "numa", "host")
WORDS = ("sio", "nvlink", "pcie", "pcie", "pcie", "smp")


@dataclass(frozen=True, slots=True)
class ProposedLevels:
    """Proposed levels, slowest first, with notes about the skipped groups."""

    levels: tuple[FoundLevel, ...]
    notes: tuple[str, ...] = ()


def propose_levels(matrix: Matrix, card: Card) -> ProposedLevels:
    """The levels of one machine, from its matrix of links and data sheets, unmeasured."""
    ranks = [[_rank(kind) for kind in row] for row in matrix.links]
    levels: list[FoundLevel] = []
    notes: list[str] = []
    inner = 1
    for rank in sorted({value for row in ranks for value in row if value >= 0}):
        groups = _groups(ranks, rank)
        sizes = {len(group) for group in groups}
        if len(sizes) > 1 or any(group != list(range(group[0], group[-1] + 1)) for group in groups):
            text = ", ".join("+".join(str(at) for at in group) for group in groups)
            notes.append(f"groups by {_kinds(matrix, rank)} are no level: {text}")
            continue
        (size,) = sizes
        if size == inner:
            continue
        levels.append(_level(matrix, card, rank, size // inner, group=size))
        inner = size
    return ProposedLevels(tuple(reversed(levels)), tuple(notes))


def propose_network(hosts: int, devices: int, ports: tuple[NetworkPort, ...]) -> FoundLevel:
    """The level between machines, whose ports the devices of a machine share."""
    fastest_ports = fastest(ports)
    if not fastest_ports:
        return FoundLevel(
            name="node", size=hosts, link="network", source="no active port reports its speed"
        )
    noun = "port" if len(fastest_ports) == 1 else "ports"
    ports_text = f"{len(fastest_ports)} {noun} of {fastest_ports[0].bytes_per_s / 1e9:g} GB/s"
    names = ", ".join(port.name for port in fastest_ports)[:300]
    return FoundLevel(
        name="node",
        size=hosts,
        link=fastest_ports[0].kind,
        bytes_per_s=sum(port.bytes_per_s for port in fastest_ports) / devices,
        source=f"{ports_text} ({names}), shared by {devices} devices",
    )


def _rank(kind: str) -> int:
    """The position of a link kind in RANKS; -1 for the device itself."""
    if kind == "X":
        return -1
    plain = re.sub(r"\d+$", "", kind)
    return next(at for at, kinds in enumerate(RANKS) if plain in kinds)


def _groups(ranks: list[list[int]], most: int) -> list[list[int]]:
    """The groups of devices connected by links of rank `most` or faster."""
    left = set(range(len(ranks)))
    groups = []
    while left:
        group, edge = set[int](), {min(left)}
        while edge:
            group |= edge
            edge = {
                other
                for at in edge
                for other, rank in enumerate(ranks[at])
                if rank <= most and other not in group
            }
        groups.append(sorted(group))
        left -= group
    return groups


def _level(matrix: Matrix, card: Card, rank: int, size: int, *, group: int) -> FoundLevel:
    kinds = _kinds(matrix, rank)
    hccs_here = "HCCS" in kinds
    bytes_per_s, source = _bandwidth(matrix, card, rank, group)
    return FoundLevel(
        name="npu" if hccs_here else NAMES[rank],
        size=size,
        link="hccs" if hccs_here else WORDS[rank],
        bytes_per_s=bytes_per_s,
        source=f"{kinds}: {source}",
    )


def _bandwidth(matrix: Matrix, card: Card, rank: int, group: int) -> tuple[float | None, str]:
    first = matrix.links[0][:group]
    if WORDS[rank] == "nvlink":
        ports = hccs(card) if any("HCCS" in kind for kind in first) else nvlinks(card)
        if ports is None:
            return None, f"no data sheet of {card.name!r} is known here, only measuring tells"
        # on a switched machine, a pair of devices shows all links; on a mesh, only its direct links
        visible = sum(int(kind[2:]) for kind in first if re.fullmatch(r"NV\d+", kind))
        count = min(ports.most, visible) if visible else min(ports.most, group - 1)
        return count * ports.bytes_per_s, ports.source
    if rank == 0:
        return None, "no data sheet of it is known here, only measuring tells"
    link = pcie_bytes_per_s(card)
    if link is None:
        return None, "the cards do not report their PCIe link, only measuring tells"
    source = f"PCIe {card.pcie_generation} x{card.pcie_lanes}, the maximum that the card reports"
    if rank >= RANKS.index(("PHB", "NODE")):
        source += "; guessed: what CPUs carry between cards is at most that"
    return link, source


def _kinds(matrix: Matrix, rank: int) -> str:
    kinds = {kind for row in matrix.links for kind in row if _rank(kind) == rank}
    return ", ".join(sorted(kinds))
