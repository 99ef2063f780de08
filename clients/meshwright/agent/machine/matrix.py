"""The matrix of links that `nvidia-smi topo -m` and `npu-smi info -t topo` print."""

from __future__ import annotations

import re
from dataclasses import dataclass

from meshwright.schema import InvalidInput

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_DEVICE = re.compile(r"(GPU|NPU|Phy-ID)\d+$")
_KIND = re.compile(r"X|NV\d+|PIX|PXB|PIB|PHB|NODE|SYS|SOC|HCCS|HCCS_SW|SIO|NA")


@dataclass(frozen=True, slots=True)
class Matrix:
    """links: the kind of link from each device to each, "X" to itself.

    nics: devices of the network beside them, as the columns are called; nic_links: from each device
    to each of those. affinity: the CPUs near each device, "" where that is not said.
    """

    devices: tuple[str, ...]
    links: tuple[tuple[str, ...], ...]
    nics: tuple[str, ...] = ()
    nic_links: tuple[tuple[str, ...], ...] = ()
    affinity: tuple[str, ...] = ()


def read_matrix(text: str) -> Matrix:
    """The matrix in a command's output; InvalidInput where there is none, or not a whole one."""
    lines = [_COLOUR.sub("", line) for line in text.splitlines()]
    rows = {words[0]: words[1:] for line in lines if (words := line.split()) and _is_row(words)}
    head = next((line for line in lines if _is_head(line.split())), None)
    if head is None:
        raise InvalidInput("there is no matrix of GPUs or NPUs in what was printed")
    columns = head.partition("CPU Affinity")[0].split()
    devices = tuple(column for column in columns if _DEVICE.match(column))
    nics = tuple(column for column in columns if not _DEVICE.match(column))
    links: list[tuple[str, ...]] = []
    nic_links: list[tuple[str, ...]] = []
    affinity: list[str] = []
    for device in devices:
        cells = rows.get(device, [])
        found = dict(zip(columns, cells, strict=False))
        wrong = [own for own in columns if not _KIND.fullmatch(found.get(own, ""))]
        if wrong:
            raise InvalidInput(f"the row of {device} says nothing known of {', '.join(wrong)}")
        links.append(tuple(found[own] for own in devices))
        nic_links.append(tuple(found[own] for own in nics))
        rest = cells[len(columns) :]
        affinity.append(rest[0] if rest and rest[0] != "N/A" else "")
    return Matrix(devices, tuple(links), nics, tuple(nic_links), tuple(affinity))


def _is_head(words: list[str]) -> bool:
    """A line of names, which no link follows."""
    return bool(words) and bool(_DEVICE.match(words[0])) and not _is_row(words)


def _is_row(words: list[str]) -> bool:
    return bool(_DEVICE.match(words[0])) and len(words) > 1 and bool(_KIND.fullmatch(words[1]))
