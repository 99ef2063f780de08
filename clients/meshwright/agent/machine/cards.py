"""The cards that `nvidia-smi --query-gpu` and `npu-smi info` list."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

MIB = 2**20
QUERY = "name,memory.total,pcie.link.gen.max,pcie.link.width.max"
# of `npu-smi info`: an NPU's line, then its chip's
_NPU = re.compile(r"\|\s*(\d+)\s+(\S+)\s*\|\s*(\S+)\s*\|")
_CHIP = re.compile(r"\|\s*(\d+)\s+(?:(\d+)\s+)?\|\s*([0-9A-Fa-fx]+:\S+)\s*\|(.*)\|")
_MEMORY = re.compile(r"(\d+)\s*/\s*(\d+)")


@dataclass(frozen=True, slots=True)
class Card:
    """A device as its driver names it. pcie_generation, pcie_lanes: the most that it can."""

    name: str
    memory_bytes: int | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None


def read_gpus(text: str) -> tuple[Card, ...]:
    """Of `nvidia-smi --query-gpu=... --format=csv`, with its line of names; any columns."""
    lines = [line for line in text.splitlines() if line.strip()]
    start = next((at for at, line in enumerate(lines) if "name" in _cells(line)), None)
    if start is None:
        return ()
    names = [re.sub(r"\s*\[.*\]$", "", own) for own in _cells(lines[start])]
    found = []
    for line in lines[start + 1 :]:
        values = dict(zip(names, _cells(line), strict=False))
        memory = _number(values.get("memory.total", ""))
        found.append(
            Card(
                name=values["name"],
                memory_bytes=None if memory is None else memory * MIB,
                pcie_generation=_number(values.get("pcie.link.gen.max", "")),
                pcie_lanes=_number(values.get("pcie.link.width.max", "")),
            )
        )
    return tuple(found)


def read_npus(text: str) -> tuple[Card, ...]:
    """Of `npu-smi info`: one for each chip; memory is HBM, the last column, where it has that."""
    found = []
    name = None
    for line in text.splitlines():
        chip = _CHIP.match(line)
        if chip and name is not None:
            sizes = [int(total) for _, total in _MEMORY.findall(chip[4])]
            memory = next((own for own in reversed(sizes) if own), None)
            full = name if name.startswith("Ascend") else f"Ascend {name}"
            found.append(Card(full, None if memory is None else memory * MIB))
            name = None
        elif own := _NPU.match(line):
            name = own[2]
    return tuple(found)


def _cells(line: str) -> list[str]:
    return next(csv.reader([line], skipinitialspace=True))


def _number(text: str) -> int | None:
    """ "81920 MiB" or "5"; None of "[N/A]"."""
    found = re.match(r"\d+", text.strip())
    return int(found[0]) if found else None
