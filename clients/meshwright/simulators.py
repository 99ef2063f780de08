"""What simulates plans, where the server distribution is installed.

Found by entry point, as the planner is (`meshwright.planner`).
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Protocol, cast

from meshwright.planner import INSTALL
from meshwright.schema import Calibration, Graph, Plan, Setup, Topology, Unavailable
from meshwright.schema.simulation import Simulation


class Simulator(Protocol):
    """Runs a plan's step; raises PlanError where the plan does not fit the documents."""

    def __call__(
        self,
        plan: Plan,
        graph: Graph,
        topology: Topology,
        setup: Setup,
        calibration: Calibration | None = None,
    ) -> Simulation: ...


class Tracer(Protocol):
    """The same as a Chrome trace, a JSON object."""

    def __call__(
        self,
        plan: Plan,
        graph: Graph,
        topology: Topology,
        setup: Setup,
        calibration: Calibration | None = None,
    ) -> dict[str, Any]: ...


def find_simulator() -> Simulator:
    """What simulates; Unavailable where the server distribution is not installed."""
    return cast(Simulator, _load("default"))


def find_tracer() -> Tracer:
    """What writes traces; Unavailable as above."""
    return cast(Tracer, _load("trace"))


def _load(name: str) -> Any:
    for point in entry_points(group="meshwright.simulator", name=name):
        return point.load()
    raise Unavailable(f"no simulator is installed here: {INSTALL}")
