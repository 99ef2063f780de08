"""Plugin interface of the solver of cost graph files.

The server distribution registers a solver under the entry point `meshwright.cost_graph_solver`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

from meshwright.common.stop_signal import Stop, never
from meshwright.plugins.entry_points import named_object
from meshwright.schema.cost_graph import (
    CostGraphEngine,
    CostGraphFile,
    CostGraphProgress,
    CostGraphSolution,
)

LACK = "no solver of cost graphs is installed here"


class CostGraphSolver(Protocol):
    """A search for the cheapest choice of a cost graph.

    Raises RequestError where the engine cannot search this cost graph, and TooLarge where its
    tables would exceed the memory. The solution of an infeasible cost graph has that status.

    seconds: the time limit; None means no limit. stop: polled from any thread; after it returns
    True, the solver returns the best choice so far.
    """

    def __call__(
        self,
        file: CostGraphFile,
        *,
        engine: CostGraphEngine = "auto",
        seconds: float | None = None,
        seed: int = 0,
        report: Callable[[CostGraphProgress], None] | None = None,
        stop: Stop = never,
    ) -> CostGraphSolution: ...


def find_cost_graph_solver(name: str = "default") -> CostGraphSolver:
    """The solver of this name, or `module:function`; Unavailable where there is none."""
    return cast(CostGraphSolver, named_object("meshwright.cost_graph_solver", name, LACK))
