"""Plugin interface of transfers between plans.

The server distribution registers an implementation under the entry point `meshwright.transfers`.
"""

from __future__ import annotations

from typing import Protocol, cast

from meshwright.plugins.entry_points import load_entry_point
from meshwright.schema import Calibration, Graph, Plan, Setup, Topology
from meshwright.schema.transfer import MovedStates, Transfer

LACK = "no transfer computation is installed here"


class PlanTransfer(Protocol):
    """The transfer of parameters from one plan to another; pairs are source and target.

    Raises PlanError where the documents do not match, LayoutError where a tensor cannot move.
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
    """The transfer function; Unavailable where the server distribution is not installed."""
    return cast(PlanTransfer, load_entry_point("meshwright.transfers", "plans", LACK))
