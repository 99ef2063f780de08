"""Network ports, as /sys/class/infiniband and /sys/class/net say them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

BITS = 8
_RATE = re.compile(r"([\d.]+)\s*Gb/sec")


@dataclass(frozen=True, slots=True)
class Port:
    """A port that is up. kind: "infiniband", "roce" or "ethernet"."""

    name: str
    kind: str
    bytes_per_s: float


def read_infiniband(name: str, files: Mapping[str, str]) -> Port | None:
    """From `state`, `rate` and `link_layer` of a port's folder; None where it is not active."""
    rate = _RATE.search(files.get("rate", ""))
    if rate is None or "ACTIVE" not in files.get("state", ""):
        return None
    layer = files.get("link_layer", "InfiniBand").strip()
    kind = "roce" if layer == "Ethernet" else "infiniband"
    return Port(name, kind, float(rate[1]) * 1e9 / BITS)


def read_interface(name: str, files: Mapping[str, str]) -> Port | None:
    """From `operstate` and `speed`, in Mb/s, of an interface; None where it is down or says none.

    A virtual interface says -1, or nothing.
    """
    speed = files.get("speed", "").strip()
    if files.get("operstate", "").strip() != "up" or not speed.isdigit() or int(speed) == 0:
        return None
    return Port(name, "ethernet", int(speed) * 1e6 / BITS)


def fastest(ports: tuple[Port, ...]) -> tuple[Port, ...]:
    """Those that devices talk by: the fastest kind of ports; slower ones are for management."""
    most = max((own.bytes_per_s for own in ports), default=0.0)
    return tuple(own for own in ports if own.bytes_per_s == most)
