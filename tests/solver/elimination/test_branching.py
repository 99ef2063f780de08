"""Labels that branch at a stop, where ceilings leave many choices and where they leave none."""

from __future__ import annotations

import numpy as np
import pytest

from solver.deadline import ENDLESS
from solver.elimination.branching import Branching
from solver.elimination.labels import Labels
from solver.elimination.order import elimination_program
from solver.elimination.solution import Weights, solve
from solver.elimination.walk import Inside
from tests.solver.cost_graphs import random_chain


@pytest.mark.parametrize("seed", range(5))
def test_a_block_without_choices_below_the_ceilings_leaves_no_label(seed: int) -> None:
    program = elimination_program(random_chain(seed, 40), 10**6)
    solutions = [solve(program, own, ENDLESS) for own in (Weights(1.0, 0.0), Weights(0.0, 1.0))]
    root = np.array([own.value for own in solutions])
    free, hopeless = (Branching(program, solutions, root, lambda v: v[0]) for _ in range(2))
    nothing = np.zeros(1, dtype=np.int64)
    labels = Labels(0, root[:, None], np.zeros((1, 0), dtype=np.int64), None, nothing, nothing)
    insides = 0
    for stop in free.stops():
        if isinstance(stop.what, Inside):
            left, _ = hopeless.extended(labels, stop, root - 1.0)
            assert len(left) == 0
            insides += 1
        labels, _ = free.extended(labels, stop, root + 1e6)
        assert len(labels) > 0
    assert insides > 0
