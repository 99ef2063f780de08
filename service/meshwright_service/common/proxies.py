"""Checks of the settings for a reverse proxy: its addresses, and the path that it serves."""

from __future__ import annotations

import ipaddress
import re

ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")


def check_root_path(path: str) -> None:
    """Raise ValueError unless the path is empty, or absolute without dot segments."""
    if not ROOT_PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
        raise ValueError(
            "it is not the path of a proxy. Use a path such as /tools/meshwright, without a slash "
            "at the end"
        )


def check_proxies(addresses: str) -> None:
    """Raise ValueError unless the text is IP addresses and networks, separated by commas."""
    for address in filter(None, (part.strip() for part in addresses.split(","))):
        try:
            ipaddress.ip_network(address)
        except ValueError:
            raise ValueError(
                f"{address!r} is neither an IP address nor a network. Use addresses such as "
                "10.0.0.7 and networks such as 10.0.0.0/8, separated by commas"
            ) from None
