"""Link matrix in the output of `nvidia-smi topo -m` and `npu-smi info -t topo`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from meshwright.schema import InvalidInput

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_DEVICE = re.compile(r"(GPU|NPU|Phy-ID)\d+$")
_KIND = re.compile(r"X|NV\d+|PIX|PXB|PIB|PHB|NODE|SYS|SOC|HCCS|HCCS_SW|SIO|NA")


@dataclass(frozen=True, slots=True)
class Matrix:
    """The kinds of links between the devices of a machine; "X" for the device itself.

    nics: column names of network devices. nic_links: links from each device to each of them.
    affinity: the CPUs near each device, or "".
    """

    devices: tuple[str, ...]
    links: tuple[tuple[str, ...], ...]
    nics: tuple[str, ...] = ()
    nic_links: tuple[tuple[str, ...], ...] = ()
    affinity: tuple[str, ...] = ()


def read_matrix(text: str) -> Matrix:
    """The matrix in a command's output; InvalidInput for a missing or incomplete matrix."""
    lines = [_COLOR.sub("", line) for line in text.splitlines()]
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
        kinds = dict(zip(columns, cells, strict=False))
        wrong = [name for name in columns if not _KIND.fullmatch(kinds.get(name, ""))]
        if wrong:
            raise InvalidInput(f"the row of {device} has no known link to {', '.join(wrong)}")
        links.append(tuple(kinds[name] for name in devices))
        nic_links.append(tuple(kinds[name] for name in nics))
        rest = cells[len(columns) :]
        affinity.append(rest[0] if rest and rest[0] != "N/A" else "")
    return Matrix(devices, tuple(links), nics, tuple(nic_links), tuple(affinity))


def _is_head(words: list[str]) -> bool:
    """Whether a line is the header: names without links."""
    return bool(words) and bool(_DEVICE.match(words[0])) and not _is_row(words)


def _is_row(words: list[str]) -> bool:
    return bool(_DEVICE.match(words[0])) and len(words) > 1 and bool(_KIND.fullmatch(words[1]))
