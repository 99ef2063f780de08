"""What configurations are estimated to hold, by the formulas of the papers."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schedules.kinds import schedule
from meshwright.schema import Axis, Mesh, MeshAxis, Passes
from meshwright_solver.pipeline.draft_plan import DraftPlan
from meshwright_solver.pipeline.estimate import Estimate
from meshwright_solver.pipeline.op_profile import OpProfile
from meshwright_solver.pipeline.schedule_length import pace_of
from meshwright_solver.pipeline.stage_limits import StageLimits, held_of


def of_ranks(kind: str, ranks: int, count: int, ratio: float) -> list[float]:
    """In microbatches of a whole rank."""
    order = schedule(kind, ranks, 4 * ranks, count)
    held = np.bincount(order.rank_of, held_of(order, np.array([ratio]))[0]) / count
    return [float(own) for own in held]


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_whole_backward_passes_hold_what_the_papers_say(ranks: int) -> None:
    """1f1b: p - r (Narayanan et al. 2019). Interleaved, rank 0: (p - 1) / (p v) more than 1f1b
    (Korthikanti et al. 2022, section 4.2.3). What waits does not exist."""
    assert of_ranks("1f1b", ranks, 1, 3.0) == [ranks - r for r in range(ranks)]
    for count in (2, 3, 5):
        most = of_ranks("interleaved_1f1b", ranks, count, 3.0)[0]
        assert most == pytest.approx(ranks * (1 + (ranks - 1) / (ranks * count)))


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_what_waits_counts_as_so_much_more(ranks: int) -> None:
    """zb_h1 holds p microbatches on every rank; rank r makes weights' halves r backwards late, and
    has one more microbatch in between than that: so many may wait for them."""
    assert of_ranks("zb_h1", ranks, 1, 1.0) == [ranks] * ranks
    for ratio in (2.0, 5.0):
        expected = [ranks - r - 1 + (r + 1) * ratio for r in range(ranks)]
        assert of_ranks("zb_h1", ranks, 1, ratio) == expected


def estimate_of(passing: list[float]) -> Estimate:
    """Four ops of 10 bytes, saved, on 2 ranks of 100 bytes: 1f1b holds 2 and 1 microbatches."""
    ones, none = np.ones(4), np.zeros(4)
    profile = OpProfile(ones, none, 10 * ones, none, np.array(passing))
    passes = Passes(forward_ns=1.0, inputs_ns=1.0, weights_ns=1.0, begin_ns=0.0, step_ns=0.0)
    mesh = Mesh(axes=(MeshAxis(name=Axis("gpu"), size=2, level="gpu"),))
    at = np.array([1, 2, 3])
    plan = DraftPlan(profile, at, none, passes, passes, ones / 4, mesh)
    pace = pace_of("1f1b", 2, 2, 1)
    limits = StageLimits((plan,), pace, np.array([100.0, 100.0]), np.zeros(2, np.int64))
    return Estimate(limits, np.zeros((2, 4)))


def test_what_passes_by_takes_its_room_once_on_a_rank() -> None:
    """2 x 2 ops x 10 bytes and 60 that pass by just fit; with 61 the first stage has one op."""
    assert estimate_of([60, 0, 0, 0]).balanced(np.array([1, 2, 3])) == (2,)
    assert estimate_of([61, 0, 0, 0]).balanced(np.array([1, 2, 3])) == (1,)
    stages = estimate_of([60, 0, 0, 30]).stages((2,))
    assert stages.passing_bytes().tolist() == [60, 30]
    assert stages.rank_bytes().tolist() == [40 + 60, 20 + 30]
    assert stages.shares() == (1.0, 1.0)


def test_stages_share_a_plan_where_each_has_room_for_what_any_holds() -> None:
    assert estimate_of([20, 0, 0, 0]).stages((2,)).kinds() == (0, 0)
    assert estimate_of([0, 0, 0, 70]).stages((2,)).kinds() == (0, 1)
