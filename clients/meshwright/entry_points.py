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


def module_of(group: str, name: str) -> list[str]:
    """The module that has the object of this name, which is not loaded; none without one."""
    return [point.module for point in entry_points(group=group, name=name)][:1]
