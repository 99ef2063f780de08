"""NUMA nodes in /sys/devices/system/node."""

from __future__ import annotations

from collections.abc import Mapping


def read_cpus(text: str) -> frozenset[int]:
    """The CPUs of a list such as "0-23,48-71"."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def node_of(affinity: str, nodes: Mapping[int, str]) -> int | None:
    """The NUMA node of a device's CPU affinity; None for several nodes or none."""
    near = read_cpus(affinity)
    matches = [node for node, cpus in nodes.items() if near & read_cpus(cpus)]
    return matches[0] if len(matches) == 1 else None
