"""Topologies with hosts, and requests that may use them."""

from __future__ import annotations

from typing import Any

from meshwright.schema import Constraints, Host, Link, Topology
from tests.solver.small_graphs import topology

GIB = 1 << 30


def hosted(
    *sizes: int,
    memory_bytes: int = 1 << 34,
    host_bytes: int = 1 << 40,
    host_bytes_per_s: float = 1e11,
    link_bytes_per_s: float = 5e10,
    **rates: float,
) -> Topology:
    """The topology of `small_graphs` with hosts; what is given of these is a device's share."""
    host = Host(
        name="toy host",
        memory_bytes=host_bytes,
        memory_bytes_per_s=host_bytes_per_s,
        link=Link(kind="pcie", bytes_per_s=link_bytes_per_s, latency_ns=1000),
    )
    found = topology(*sizes, memory_bytes=memory_bytes, **rates)
    return found.model_copy(update={"host": host})


def offloading(what: str, **wish: Any) -> Constraints:
    return Constraints.model_validate({"offload": what, **wish})
