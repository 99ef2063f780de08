"""Entry points of other distributions, loaded on demand."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from meshwright.schema import Unavailable

INSTALL = "install the distribution meshwright-server beside this one, or name a --server"


def load_entry_point(group: str, name: str, lack: str) -> Any:
    """The object of this name in a group; Unavailable with the message `lack` without one."""
    for point in entry_points(group=group, name=name):
        return point.load()
    raise Unavailable(f"{lack}: {INSTALL}")


def named_object(group: str, name: str, lack: str) -> Any:
    """The object of this name in a group, or at `module:object`."""
    if ":" in name:
        module, _, attribute = name.partition(":")
        return getattr(import_module(module), attribute)
    return load_entry_point(group, name, lack)


def module_of(group: str, name: str) -> list[str]:
    """The module of the object of this name, without loading it; empty without one."""
    return [point.module for point in entry_points(group=group, name=name)][:1]
