"""Semi-automatic planning: the user gives strategies, the rest follows without a search.

    data_parallel   every other op has its batch over the devices
    propagate       the given strategies spread
    (meshwright_solver.stage.heuristics.propagation.sharding_propagation)

Where the layouts do not agree the lowered graph redistributes; the plan says what that costs.
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
    given: Mapping[int, StrategyFilter],
    rest: Rest = "data_parallel",
    tied: Tied = (),
    allowed: Mapping[int, StrategyFilter] | None = None,
    ns_per_byte: float = 0.0,
) -> Propagation:
    """The given strategies (position of op -> those it may have), and the rest as `rest` says.

    tied, allowed, ns_per_byte: as `sharding_propagation` has them.
    """
    if rest == "propagate":
        return sharding_propagation(models, given, tied, allowed, ns_per_byte)
    own = PropagationProblem.of(models, given, allowed or {}, ns_per_byte)
    spread = own.spread(tied)
    others = [p for p in own.lowered.op_node if p not in given]
    spread.fix(own.data_parallel(others))
    left = [node for node in spread.ops if spread.state[node] == OPEN]
    for node in left:
        spread.settle(node)
    is_given = all(np.isfinite(own.graph.nodes[node].cost).sum() == 1 for node in left)
    return own.propagation(spread.state, (), is_given=is_given)
