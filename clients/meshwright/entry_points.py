"""What other distributions offer, found by entry point, so that this one needs none of them."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from meshwright.schema import Unavailable

INSTALL = "install the distribution meshwright-server beside this one, or name a --server"


def loaded(group: str, name: str, lack: str) -> Any:
    """The object of this name in a group; Unavailable, which says what is lacking, without one."""
    for point in entry_points(group=group, name=name):
        return point.load()
    raise Unavailable(f"{lack}: {INSTALL}")
