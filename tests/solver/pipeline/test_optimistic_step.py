"""What configurations take at best, and ways of which some layers are as in the one."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schedules.kinds import schedule
from meshwright.schema import Axis, Mesh, MeshAxis, Passes, ScheduleKind
from meshwright_solver.pipeline.configurations import Configuration
from meshwright_solver.pipeline.draft_plan import DraftPlan, mixed, undominated
from meshwright_solver.pipeline.op_profile import OpProfile
from meshwright_solver.pipeline.optimistic_step import (
    outlook_ns,
    repeated_forward,
    scaled,
    with_passes,
)
from meshwright_solver.pipeline.schedule_run import Durations, run

MESH = Mesh(axes=(MeshAxis(name=Axis("gpu"), size=2, level="gpu"),))


def way(ns: float, held: float) -> DraftPlan:
    """Four ops, F = I = W = ns / 3 over one microbatch of one."""
    each, none = np.full(4, ns / 4), np.zeros(4)
    profile = OpProfile(each, np.full(4, held), 2 * np.full(4, held), none, np.full(4, held))
    passes = Passes(forward_ns=ns / 3, inputs_ns=ns / 3, weights_ns=ns / 3, step_ns=0.0)
    at = np.array([1, 2, 3])
    return DraftPlan(profile, at, none, passes, passes, np.full(4, 0.25), MESH)


@pytest.mark.parametrize(
    ("kind", "count"),
    [("1f1b", 1), ("interleaved_1f1b", 2), ("zb_h1", 1), ("zb_v", 2), ("gpipe", 1)],
)
@pytest.mark.parametrize("ranks", [2, 4])
def test_equal_stages_take_as_long_as_the_schedule_run_pass_by_pass(
    kind: ScheduleKind, count: int, ranks: int
) -> None:
    whole_ns, microbatches = 120.0, 4 * ranks
    stages = ranks * count
    passes = np.full(stages, whole_ns / 3 / stages)
    order = schedule(kind, ranks, microbatches, count)
    ran = run(order, Durations(passes, passes, passes, np.zeros((2, stages - 1))))
    own = Configuration(ranks, kind, count, microbatches)
    assert outlook_ns(own, way(whole_ns, 1.0)) == pytest.approx(ran.ns)


def test_twice_the_microbatches_of_half_the_time_take_as_long_but_for_the_bubble() -> None:
    # (4 + 1) x 120 / 2 and (8 + 1) x 60 / 2
    few, many = (Configuration(2, "1f1b", 1, count) for count in (4, 8))
    half = with_passes(way(120.0, 1.0), lambda passes: scaled(passes, 0.5))
    assert outlook_ns(few, way(120.0, 1.0)) == pytest.approx(300.0)
    assert outlook_ns(many, half) == pytest.approx(270.0)


def test_a_repeated_forward_pass_lengthens_the_backward_pass() -> None:
    repeated = with_passes(way(120.0, 1.0), lambda passes: repeated_forward(passes, 0.75)).whole
    assert (repeated.forward_ns, repeated.inputs_ns, repeated.weights_ns) == (40.0, 70.0, 40.0)


def test_half_of_the_layers_as_in_the_one_take_and_hold_the_mean() -> None:
    found = mixed([way(100.0, 8.0), way(200.0, 4.0)])
    half = next(own for own in found if own.layers == 2)
    assert half.profile.ns.sum() == pytest.approx(150.0)
    assert half.profile.static_bytes.tolist() == [6.0] * 4
    assert half.profile.saved_bytes.tolist() == [12.0] * 4
    assert half.whole.forward_ns == pytest.approx(50.0)
    assert half.profile.passing_bytes.tolist() == [8.0] * 4
    assert sorted(own.layers for own in found) == [1, 1, 2, 4, 4]


def test_what_takes_longer_and_holds_more_is_left_out() -> None:
    best, leaner, worse = way(100.0, 8.0), way(110.0, 4.0), way(120.0, 9.0)
    kept = undominated([worse, best, leaner])
    assert [own.profile.ns.sum() for own in kept] == [100.0, 110.0]
