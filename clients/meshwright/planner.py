"""The planner and the topology presets, where the server distribution is installed.

Both are found by entry point, so that this distribution needs neither.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Protocol, cast

from meshwright.schema import (
    Answer,
    Calibration,
    Certificate,
    Graph,
    Plan,
    Progress,
    Request,
    Setup,
    Topology,
    Unavailable,
)

NO_PRESETS = "no topology presets are installed here"
INSTALL = "install the distribution meshwright-server beside this one, or name a --server"


class Planner(Protocol):
    """Searches; raises MeshwrightError where the request is wrong."""

    def __call__(
        self, request: Request, report: Callable[[Progress], None] | None = None
    ) -> Answer: ...


def find_planner(name: str = "default") -> Planner:
    """The planner of this name, or `module:function`; Unavailable where there is none."""
    if ":" in name:
        module, _, function = name.partition(":")
        return cast(Planner, getattr(import_module(module), function))
    return cast(Planner, _load("meshwright.planner", name, "no planner is installed here"))


class Verifier(Protocol):
    """Executes a plan; raises MeshwrightError where plan and documents do not fit together."""

    def __call__(
        self,
        plan: Plan,
        graph: Graph,
        topology: Topology,
        setup: Setup,
        calibration: Calibration | None = None,
        seed: int = 0,
    ) -> Certificate: ...


def find_verifier() -> Verifier:
    """What executes plans; Unavailable where the server distribution is not installed."""
    return cast(Verifier, _load("meshwright.verifier", "default", "no verifier is installed here"))


def preset(name: str) -> Topology:
    """The topology preset of this name; TopologyError where there is none."""
    return cast(Topology, _load("meshwright.topologies", "preset", NO_PRESETS)(name))


def preset_devices() -> list[str]:
    """The devices that a preset's name may begin with."""
    return list(_load("meshwright.topologies", "devices", NO_PRESETS)())


def _load(group: str, name: str, lack: str) -> Any:
    for point in entry_points(group=group, name=name):
        return point.load()
    raise Unavailable(f"{lack}: {INSTALL}")
