"""Bandwidths of links from data sheets, by the driver's device name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from meshwright.agent.machine.cards import Card

GB = 1e9


@dataclass(frozen=True, slots=True)
class DevicePorts:
    """The links of a device: `most` links of `bytes_per_s` each in one direction."""

    most: int
    bytes_per_s: float
    source: str


# published: NVIDIA's data sheets and whitepapers, both directions of all links halved and divided
# by their number: V100 300 GB/s of 6, A100 600 of 12, A800 and H800 400 of 8, H100, H200 and H20
# 900 of 18, B200 1,800 of 18, A6000 and A40 112.5 of a bridge that nvidia-smi counts as 4
_NVLINK = (
    (r"\bV100\b", DevicePorts(6, 25 * GB, "data sheet of V100: 6 NVLinks of 25 GB/s a direction")),
    (r"\bA800\b", DevicePorts(8, 25 * GB, "data sheet of A800: 8 NVLinks of 25 GB/s a direction")),
    (
        r"\bA100\b",
        DevicePorts(12, 25 * GB, "data sheet of A100: 12 NVLinks of 25 GB/s a direction"),
    ),
    (r"\bH800\b", DevicePorts(8, 25 * GB, "data sheet of H800: 8 NVLinks of 25 GB/s a direction")),
    (
        r"\b(H100|H200|H20)\b",
        DevicePorts(18, 25 * GB, "data sheet of H100: 18 NVLinks of 25 GB/s a direction"),
    ),
    (
        r"\bG?B200\b",
        DevicePorts(18, 50 * GB, "data sheet of B200: 18 NVLinks of 50 GB/s a direction"),
    ),
    (
        r"\b(A6000|A40)\b",
        DevicePorts(4, 14.0625 * GB, "data sheet of A6000: a bridge of 56 GB/s a direction"),
    ),
)
# published: costmodel/meshwright_costmodel/nodes/atlas-800t-a2.json and atlas-800.json name the
# sheets
_HCCS = (
    (r"910B", DevicePorts(7, 28 * GB, "data sheet of Atlas 800T A2: 7 HCCS links of 28 GB/s")),
    (r"910A", DevicePorts(3, 30 * GB, "Hot Chips 31: three HCCS ports of 30 GB/s")),
)
# published: PCI Express base specification, bytes a second of a lane after its coding
_LANE = {1: 0.25 * GB, 2: 0.5 * GB, 3: 0.985 * GB, 4: 1.969 * GB, 5: 3.938 * GB, 6: 7.563 * GB}


def nvlinks(card: Card) -> DevicePorts | None:
    """The NVLink ports of a GPU; None without a known data sheet."""
    return _ports(_NVLINK, card.name)


def hccs(card: Card) -> DevicePorts | None:
    """The HCCS ports of an NPU; None without a known data sheet."""
    return _ports(_HCCS, card.name)


def pcie_bytes_per_s(card: Card) -> float | None:
    """The maximum bandwidth of the card's PCIe link in one direction, or None."""
    if card.pcie_generation not in _LANE or not card.pcie_lanes:
        return None
    return _LANE[card.pcie_generation] * card.pcie_lanes


def _ports(table: tuple[tuple[str, DevicePorts], ...], name: str) -> DevicePorts | None:
    return next((ports for pattern, ports in table if re.search(pattern, name)), None)
