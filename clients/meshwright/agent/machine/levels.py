"""The levels of a machine: devices that reach each other by one kind of link, from fast to slow.

Devices joined by links of a kind or faster ones form groups. Where these have one size and are
neighbours by number, they are a level; where not, the next slower kind decides, and a note says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from meshwright.agent.machine.cards import Card
from meshwright.agent.machine.links import hccs, nvlinks, pcie_bytes_per_s
from meshwright.agent.machine.matrix import Matrix
from meshwright.agent.machine.network import Port, fastest
from meshwright.schema.agent import FoundLevel

# kinds of links from the fastest; those of one line are one level
RANKS = (
    ("SIO",), ("NV", "HCCS", "HCCS_SW"), ("PIX", "PIB"), ("PXB",), ("PHB", "NODE"),
    ("SYS", "SOC", "NA"),
)  # fmt: skip
NAMES = ("package", "gpu", "switch", "switches", "numa", "host")
WORDS = ("sio", "nvlink", "pcie", "pcie", "pcie", "smp")


@dataclass(frozen=True, slots=True)
class Proposal:
    """levels: slowest first. notes: what could not be said of them."""

    levels: tuple[FoundLevel, ...]
    notes: tuple[str, ...] = ()


def propose_levels(matrix: Matrix, card: Card) -> Proposal:
    """Of one machine, by its matrix of links. Nothing is measured, nothing is made up."""
    ranks = [[_rank(kind) for kind in row] for row in matrix.links]
    found: list[FoundLevel] = []
    notes: list[str] = []
    inner = 1
    for rank in sorted({own for row in ranks for own in row if own >= 0}):
        groups = _groups(ranks, rank)
        sizes = {len(own) for own in groups}
        if len(sizes) > 1 or any(own != list(range(own[0], own[-1] + 1)) for own in groups):
            said = ", ".join("+".join(str(at) for at in own) for own in groups)
            notes.append(f"groups by {_kinds(matrix, rank)} are no level: {said}")
            continue
        (size,) = sizes
        if size == inner:
            continue
        found.append(_level(matrix, card, rank, size // inner, group=size))
        inner = size
    return Proposal(tuple(reversed(found)), tuple(notes))


def propose_network(hosts: int, each: int, ports: tuple[Port, ...]) -> FoundLevel:
    """Between machines, by the ports of one of them, which its devices share."""
    own = fastest(ports)
    if not own:
        return FoundLevel(
            name="node", size=hosts, link="network", source="no port that is up says its speed"
        )
    said = f"{len(own)} {'port' if len(own) == 1 else 'ports'} of {own[0].bytes_per_s / 1e9:g} GB/s"
    return FoundLevel(
        name="node",
        size=hosts,
        link=own[0].kind,
        bytes_per_s=sum(port.bytes_per_s for port in own) / each,
        source=f"{said} ({', '.join(port.name for port in own)[:300]}), shared by {each} devices",
    )


def _rank(kind: str) -> int:
    """-1 of a device itself."""
    if kind == "X":
        return -1
    plain = re.sub(r"\d+$", "", kind)
    return next(at for at, kinds in enumerate(RANKS) if plain in kinds)


def _groups(ranks: list[list[int]], most: int) -> list[list[int]]:
    """Devices that reach each other over links of this rank or faster ones."""
    left = set(range(len(ranks)))
    found = []
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
        found.append(sorted(group))
        left -= group
    return found


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
        # pairs of a switched machine each see all of a device's links, of a meshed one its own
        seen = sum(int(kind[2:]) for kind in first if re.fullmatch(r"NV\d+", kind))
        count = min(ports.most, seen) if seen else min(ports.most, group - 1)
        return count * ports.bytes_per_s, ports.source
    if rank == 0:
        return None, "no data sheet of it is known here, only measuring tells"
    link = pcie_bytes_per_s(card)
    if link is None:
        return None, "the cards do not say their PCIe link, only measuring tells"
    said = f"PCIe {card.pcie_generation} x{card.pcie_lanes}, the most that the card says"
    if rank >= RANKS.index(("PHB", "NODE")):
        said += "; guessed: what CPUs carry between cards is at most that"
    return link, said


def _kinds(matrix: Matrix, rank: int) -> str:
    found = {kind for row in matrix.links for kind in row if _rank(kind) == rank}
    return ", ".join(sorted(found))
