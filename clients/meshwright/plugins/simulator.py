"""Plugin interfaces of the simulator and the tracer of plans.

The server distribution registers both under the entry point `meshwright.simulator`.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from meshwright.plugins.entry_points import load_entry_point
from meshwright.schema import Calibration, Graph, Plan, Setup, Topology
from meshwright.schema.simulation import Simulation

LACK = "no simulator is installed here"


class Simulator(Protocol):
    """Simulation of a plan's step; raises PlanError where the plan does not fit the documents."""

    def __call__(
        self,
        plan: Plan,
        graph: Graph,
        topology: Topology,
        setup: Setup,
        calibration: Calibration | None = None,
    ) -> Simulation: ...


class Tracer(Protocol):
    """Simulation of a plan's step as a Chrome trace, a JSON object."""

    def __call__(
        self,
        plan: Plan,
        graph: Graph,
        topology: Topology,
        setup: Setup,
        calibration: Calibration | None = None,
    ) -> dict[str, Any]: ...


def find_simulator() -> Simulator:
    """The simulator; Unavailable where the server distribution is not installed."""
    return cast(Simulator, load_entry_point("meshwright.simulator", "default", LACK))


def find_tracer() -> Tracer:
    """The tracer; Unavailable where the server distribution is not installed."""
    return cast(Tracer, load_entry_point("meshwright.simulator", "trace", LACK))
