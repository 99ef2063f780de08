"""Labels that branch at a stop, where ceilings leave many choices and where they leave none."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright_solver.common.deadline import ENDLESS
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.elimination.branching import Branching
from meshwright_solver.search.elimination.choice_order import Inside
from meshwright_solver.search.elimination.elimination_order import elimination_program
from meshwright_solver.search.elimination.evaluated_program import solve
from meshwright_solver.search.elimination.partial_choices import LabelLevel
from tests.solver.cost_graphs import random_chain


@pytest.mark.parametrize("seed", range(5))
def test_a_block_without_choices_below_the_ceilings_leaves_no_label(seed: int) -> None:
    program = elimination_program(random_chain(seed, 40), 10**6)
    solutions = [
        solve(program, own, ENDLESS) for own in (CostWeights(1.0, 0.0), CostWeights(0.0, 1.0))
    ]
    root = np.array([own.value for own in solutions])
    free, hopeless = (Branching(program, solutions, root, lambda v: v[0]) for _ in range(2))
    nothing = np.zeros(1, dtype=np.int64)
    labels = LabelLevel(0, root[:, None], np.zeros((1, 0), dtype=np.int64), None, nothing, nothing)
    insides = 0
    for stop in free.stops():
        if isinstance(stop.what, Inside):
            left, _ = hopeless.extended(labels, stop, root - 1.0)
            assert len(left) == 0
            insides += 1
        labels, _ = free.extended(labels, stop, root + 1e6)
        assert len(labels) > 0
    assert insides > 0
