"""What computes transfers between plans, where the server distribution is installed.

Found by entry point, as the planner is (`meshwright.planner`).
"""

from __future__ import annotations

from typing import Protocol, cast

from meshwright.entry_points import loaded
from meshwright.schema import Calibration, Graph, Plan, Setup, Topology
from meshwright.schema.transfer import MovedStates, Transfer

LACK = "nothing that computes transfers is installed here"


class PlanTransfer(Protocol):
    """Moves the parameters of one plan to another; pairs are source and target.

    Raises PlanError where they do not fit together, LayoutError where a tensor cannot move.
    """

    def __call__(
        self,
        plans: tuple[Plan, Plan],
        graphs: tuple[Graph, Graph],
        topologies: tuple[Topology, Topology],
        setups: tuple[Setup, Setup],
        *,
        state: MovedStates = "all",
        first: int = 0,
        cluster: Topology | None = None,
        calibration: Calibration | None = None,
    ) -> Transfer: ...


def find_transfer() -> PlanTransfer:
    """What moves plans; Unavailable where the server distribution is not installed."""
    return cast(PlanTransfer, loaded("meshwright.transfers", "plans", LACK))
