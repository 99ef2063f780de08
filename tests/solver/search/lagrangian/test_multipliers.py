from __future__ import annotations

import math

import numpy as np
import pytest

from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.core.cost_graph import CostGraph, CostNode
from meshwright_solver.search.lagrangian.model import model_of
from meshwright_solver.search.lagrangian.multipliers import Multipliers
from meshwright_solver.search.lagrangian.reductions import reduced
from tests.solver.search.lagrangian.random_models import least_cost, random_model


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(60))
def test_the_bound_never_exceeds_the_optimum(seed: int) -> None:
    graph, model = random_model(seed)
    limit = math.inf if graph.memory_limit_bytes is None else graph.memory_limit_bytes
    small = reduced(model, Deadline.after(None)).model
    if small is None or not np.isfinite(small.pair).all():
        return
    optimum = least_cost(small, limit)
    multipliers = Multipliers(small, limit)
    for aim in (math.inf, optimum):
        multipliers.advance(3e6, aim, np.zeros(1, dtype=np.int64))
        assert multipliers.bound <= optimum + 1e-9 * abs(optimum)
    assert (multipliers.prices >= 0).all()


def test_the_price_is_what_the_next_byte_would_save() -> None:
    nodes = tuple(
        CostNode(f"n{k}", np.array([0.0, k * 10.0]), np.array([1.0, 0.0])) for k in (1, 2, 3)
    )
    multipliers = Multipliers(model_of(CostGraph(nodes, (), 2.0)), 2.0)
    multipliers.advance(3e7, 10.0, np.zeros(1, dtype=np.int64))
    # two of the three bytes fit: the first node goes without, for 10
    assert multipliers.bound == pytest.approx(10.0, rel=1e-3)
    assert 10.0 - 1e-2 <= multipliers.prices[0] <= 20.0 + 1e-2
