"""The cards that `nvidia-smi --query-gpu` and `npu-smi info` list."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

MIB = 2**20
QUERY = "name,memory.total,pcie.link.gen.max,pcie.link.width.max"
# `npu-smi info` prints a line per NPU, then a line per chip
_NPU = re.compile(r"\|\s*(\d+)\s+(\S+)\s*\|\s*(\S+)\s*\|")
_CHIP = re.compile(r"\|\s*(\d+)\s+(?:(\d+)\s+)?\|\s*([0-9A-Fa-fx]+:\S+)\s*\|(.*)\|")
_MEMORY = re.compile(r"(\d+)\s*/\s*(\d+)")


@dataclass(frozen=True, slots=True)
class Card:
    """A device with its driver's name; the PCIe fields are the maximum of the card."""

    name: str
    memory_bytes: int | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None


def read_gpus(text: str) -> tuple[Card, ...]:
    """The GPUs in `nvidia-smi --query-gpu=... --format=csv` output with a header."""
    lines = [line for line in text.splitlines() if line.strip()]
    start = next((at for at, line in enumerate(lines) if "name" in _cells(line)), None)
    if start is None:
        return ()
    names = [re.sub(r"\s*\[.*\]$", "", column) for column in _cells(lines[start])]
    cards = []
    for line in lines[start + 1 :]:
        values = dict(zip(names, _cells(line), strict=False))
        memory = _number(values.get("memory.total", ""))
        cards.append(
            Card(
                name=values["name"],
                memory_bytes=None if memory is None else memory * MIB,
                pcie_generation=_number(values.get("pcie.link.gen.max", "")),
                pcie_lanes=_number(values.get("pcie.link.width.max", "")),
            )
        )
    return tuple(cards)


def read_npus(text: str) -> tuple[Card, ...]:
    """The chips in `npu-smi info` output; memory is the last nonzero column, HBM if present."""
    cards = []
    name = None
    for line in text.splitlines():
        chip = _CHIP.match(line)
        if chip and name is not None:
            sizes = [int(total) for _, total in _MEMORY.findall(chip[4])]
            memory = next((size for size in reversed(sizes) if size), None)
            full = name if name.startswith("Ascend") else f"Ascend {name}"
            cards.append(Card(full, None if memory is None else memory * MIB))
            name = None
        elif npu := _NPU.match(line):
            name = npu[2]
    return tuple(cards)


def _cells(line: str) -> list[str]:
    return next(csv.reader([line], skipinitialspace=True))


def _number(text: str) -> int | None:
    """The leading integer of a cell such as "81920 MiB"; None for "[N/A]"."""
    digits = re.match(r"\d+", text.strip())
    return int(digits[0]) if digits else None
