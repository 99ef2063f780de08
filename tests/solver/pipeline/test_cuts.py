"""Cuts against every other choice of cuts."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from meshwright_solver.pipeline.cuts import balanced, crossing_bytes, places
from meshwright_solver.pipeline.op_profile import OpProfile
from meshwright_solver.pipeline.stage_graph import Anatomy
from tests.solver.layered import layered


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(60))
def test_cuts_are_the_best_of_all(seed: int) -> None:
    random = np.random.default_rng(seed)
    ops, stages = int(random.integers(4, 11)), int(random.integers(2, 5))
    ways = [
        OpProfile(
            *(random.integers(0, 20, ops).astype(float) for _ in range(3)),
            np.zeros(ops),
            random.integers(0, 40, ops).astype(float),
        )
        for _ in range(int(random.integers(1, 3)))
    ]
    send = random.integers(0, 6, (stages, ops)).astype(float)
    at = np.sort(random.choice(np.arange(1, ops), min(ops - 1, 7), replace=False))
    in_flight = np.sort(random.uniform(1, 5, (len(ways), stages)))[:, ::-1].copy()
    limits = random.integers(30, 200, (len(ways), stages)).astype(float)
    # some are ways of other devices than the stage has
    limits[random.random(limits.shape) < 0.2] = -np.inf
    share = random.choice([0.0, 0.5, 1.0], limits.shape)
    found = balanced(ways, at, send, in_flight, limits, share)

    def slowest(cuts: tuple[int, ...]) -> float:
        most = 0.0
        for stage, (first, last) in enumerate(pairwise((0, *cuts, ops))):
            own = [
                way.ns[first:last].sum() + (send[stage, first] if first else 0.0)
                for way, held, limit, counted in zip(
                    ways, in_flight[:, stage], limits[:, stage], share[:, stage], strict=True
                )
                if way.static_bytes[first:last].sum()
                + held * way.saved_bytes[first:last].sum()
                + counted * way.passing_bytes[first:last].max()
                <= limit
            ]
            most = max(most, min(own, default=np.inf))
        return most

    best = min(map(slowest, combinations(at.tolist(), stages - 1)), default=np.inf)
    if found is None:
        assert best == np.inf
    else:
        assert slowest(found) == best


def test_what_crosses_a_cut_is_counted_whole() -> None:
    """batch 8 x 4 x 64 float32 = 8,192 bytes; in a layer the residual stream crosses too."""
    anatomy = Anatomy(layered(2))
    one = 8 * 4 * 64 * 4
    names = [op.name for op in anatomy.order]
    assert names == ["embed", "0.linear", "0.act", "0.add", "1.linear", "1.act", "1.add", "logits",
                     "loss"]  # fmt: skip
    crossing = crossing_bytes(anatomy, {})
    assert crossing.tolist() == [
        0, one, 2 * one, 2 * one, one, 2 * one, 2 * one, one, 8 * 4 * 32 * 4
    ]  # fmt: skip
    assert places(crossing).tolist() == [1, 3, 4, 6, 7, 8]
