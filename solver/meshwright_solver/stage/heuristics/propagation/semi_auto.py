"""Semi-automatic planning: the user pins strategies, the rest follows without a search.

    data_parallel   every other op has its batch sharded over the devices
    propagate       the pinned strategies propagate
    (meshwright_solver.stage.heuristics.propagation.sharding_propagation)

Where layouts disagree the lowered graph redistributes; the plan states the cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from meshwright_solver.stage.heuristics.propagation.inputs import (
    Propagation,
    PropagationProblem,
    Tied,
)
from meshwright_solver.stage.heuristics.propagation.lookahead import OPEN
from meshwright_solver.stage.heuristics.propagation.sharding_propagation import sharding_propagation
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import StrategyFilter

Rest = Literal["data_parallel", "propagate"]


def semi_auto(
    models: Models,
    pinned: Mapping[int, StrategyFilter],
    rest: Rest = "data_parallel",
    tied: Tied = (),
    allowed: Mapping[int, StrategyFilter] | None = None,
    ns_per_byte: float = 0.0,
) -> Propagation:
    """The pinned strategies (position of op -> those it may have); `rest` decides the others.

    tied, allowed, ns_per_byte: as in `sharding_propagation`.
    """
    if rest == "propagate":
        return sharding_propagation(models, pinned, tied, allowed, ns_per_byte)
    problem = PropagationProblem.of(models, pinned, allowed or {}, ns_per_byte)
    spread = problem.spread(tied)
    others = [p for p in problem.lowered.op_node if p not in pinned]
    spread.fix(problem.data_parallel(others))
    unsettled = [node for node in spread.ops if spread.state[node] == OPEN]
    for node in unsettled:
        spread.settle(node)
    is_given = all(np.isfinite(problem.graph.nodes[node].cost).sum() == 1 for node in unsettled)
    return problem.propagation(spread.state, (), is_given=is_given)
