"""Kinds of links: the meaning of `Link.kind` for the cost of collectives.

A kind is free text. The beginning decides, in any case: `NVLink 4` and
`nvlink-c2c` are NVLinks. Every other kind is a switched network.
"""

from __future__ import annotations

import re

from meshwright.schema import Level

# links that join every pair of units by a wire of its own
FULL_MESH_KINDS = ("hccs", "xgmi", "infinity fabric")
# links whose switches can reduce (NVLink SHARP)
SWITCH_KINDS = ("nvlink", "nvswitch")
# links inside a node, to which the protocol times between nodes do not apply
NODE_KINDS = (*FULL_MESH_KINDS, *SWITCH_KINDS, "pcie", "host", "unified bus")
# links to the two neighbors in one dimension: closed to a ring, or open at its ends
RING_KINDS = ("torus",)
LINE_KINDS = ("grid",)


def is_full_mesh(kind: str) -> bool:
    """Whether every pair of units has a wire of its own."""
    return _is_one_of(kind, FULL_MESH_KINDS)


def is_reducing_switch(kind: str) -> bool:
    """Whether the switch of the link can reduce."""
    return _is_one_of(kind, SWITCH_KINDS)


def is_in_node(kind: str) -> bool:
    """Whether the link is inside a node."""
    return _is_one_of(kind, NODE_KINDS)


def is_ring(kind: str) -> bool:
    """Whether the link joins each unit to its two neighbors, and the last unit to the first."""
    return _is_one_of(kind, RING_KINDS)


def is_line(kind: str) -> bool:
    """Whether the link joins each unit to its two neighbors, and the two ends to one."""
    return _is_one_of(kind, LINE_KINDS)


def part_of_level(level: Level, size: int) -> Level:
    """The level with only `size` of its units, which are neighbors.

    A full mesh keeps the wires between them; a ring becomes a line.
    """
    link = level.link
    if size == level.size:
        return level
    if is_full_mesh(link.kind):
        wire_bytes_per_s = link.bytes_per_s / (level.size - 1)
        link = link.model_copy(update={"bytes_per_s": wire_bytes_per_s * max(size - 1, 1)})
    if is_ring(link.kind):
        link = link.model_copy(update={"kind": LINE_KINDS[0]})
    return level.model_copy(update={"size": size, "link": link})


def _is_one_of(kind: str, names: tuple[str, ...]) -> bool:
    words = re.sub(r"[\s_-]+", " ", kind.strip().lower())
    return words.startswith(names)
