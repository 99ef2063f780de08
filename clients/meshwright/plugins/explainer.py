"""Plugin interface of the explainer of plans.

The server distribution registers an explainer under the entry point `meshwright.explainer`.
"""

from __future__ import annotations

from typing import Protocol, cast

from meshwright.plugins.entry_points import load_entry_point
from meshwright.schema import Calibration, Graph, Plan, Setup, Topology
from meshwright.schema.explanation import Explanation

LACK = "no explainer of plans is installed here"


class Explainer(Protocol):
    """An explanation of the strategies of the ops that match a glob.

    Raises RequestError where no op matches, or too many, and PlanError where the plan does not fit
    the documents.
    """

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
    """The explainer; Unavailable where the server distribution is not installed."""
    return cast(Explainer, load_entry_point("meshwright.explainer", "default", LACK))
