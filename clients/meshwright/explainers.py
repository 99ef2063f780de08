"""What explains plans, where the server distribution is installed.

Found by entry point, as the planner is (`meshwright.planner`).
"""

from __future__ import annotations

from typing import Protocol, cast

from meshwright.entry_points import loaded
from meshwright.schema import Calibration, Graph, Plan, Setup, Topology
from meshwright.schema.explanation import Explanation

LACK = "nothing that explains plans is installed here"


class Explainer(Protocol):
    """Why the ops that a glob means have their strategies; raises RequestError where it means none,
    or too many, PlanError where the plan does not fit the documents."""

    def __call__(
        self,
        plan: Plan,
        graph: Graph,
        topology: Topology,
        setup: Setup,
        calibration: Calibration | None = None,
        *,
        glob: str,
        seconds: float = 10.0,
    ) -> Explanation: ...


def find_explainer() -> Explainer:
    """What explains; Unavailable where the server distribution is not installed."""
    return cast(Explainer, loaded("meshwright.explainer", "default", LACK))
