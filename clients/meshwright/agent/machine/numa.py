"""NUMA nodes, as /sys/devices/system/node says them."""

from __future__ import annotations

from collections.abc import Mapping


def read_cpus(text: str) -> frozenset[int]:
    """CPUs of a list such as "0-23,48-71"; none of an empty one."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def node_of(affinity: str, nodes: Mapping[int, str]) -> int | None:
    """The node whose CPUs a device is near to; None where they are of several, or of none."""
    near = read_cpus(affinity)
    found = [node for node, cpus in nodes.items() if near & read_cpus(cpus)]
    return found[0] if len(found) == 1 else None
