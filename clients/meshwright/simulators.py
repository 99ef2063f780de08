"""What simulates plans, where the server distribution is installed.

Found by entry point, as the planner is (`meshwright.planner`).
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from meshwright.entry_points import loaded
from meshwright.schema import Calibration, Graph, Plan, Setup, Topology
from meshwright.schema.simulation import Simulation

LACK = "no simulator is installed here"


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
    return cast(Simulator, loaded("meshwright.simulator", "default", LACK))


def find_tracer() -> Tracer:
    """What writes traces; Unavailable as above."""
    return cast(Tracer, loaded("meshwright.simulator", "trace", LACK))
