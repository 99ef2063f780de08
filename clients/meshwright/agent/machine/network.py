"""Network ports in /sys/class/infiniband and /sys/class/net."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

BITS = 8
_RATE = re.compile(r"([\d.]+)\s*Gb/sec")


@dataclass(frozen=True, slots=True)
class NetworkPort:
    """An active port; `kind` is "infiniband", "roce" or "ethernet"."""

    name: str
    kind: str
    bytes_per_s: float


def read_infiniband(name: str, files: Mapping[str, str]) -> NetworkPort | None:
    """The port of the files `state`, `rate` and `link_layer`; None for an inactive port."""
    rate = _RATE.search(files.get("rate", ""))
    if rate is None or "ACTIVE" not in files.get("state", ""):
        return None
    layer = files.get("link_layer", "InfiniBand").strip()
    kind = "roce" if layer == "Ethernet" else "infiniband"
    return NetworkPort(name, kind, float(rate[1]) * 1e9 / BITS)


def read_interface(name: str, files: Mapping[str, str]) -> NetworkPort | None:
    """The port of the files `operstate` and `speed` (Mb/s); None for a down or virtual interface.

    The speed of a virtual interface is -1 or empty.
    """
    speed = files.get("speed", "").strip()
    if files.get("operstate", "").strip() != "up" or not speed.isdigit() or int(speed) == 0:
        return None
    return NetworkPort(name, "ethernet", int(speed) * 1e6 / BITS)


def fastest(ports: tuple[NetworkPort, ...]) -> tuple[NetworkPort, ...]:
    """The fastest ports; slower ones are for management."""
    most = max((port.bytes_per_s for port in ports), default=0.0)
    return tuple(port for port in ports if port.bytes_per_s == most)
