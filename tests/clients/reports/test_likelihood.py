"""How likely predictions are right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.reports.likelihood import (
    FASTER_SPREAD,
    MEMORY_RATIO,
    probability_fits,
    probability_shorter,
)
from meshwright.schema import MemoryUse

STEPS = st.floats(1e3, 1e12)


@given(STEPS, STEPS, st.booleans())
def test_one_of_two_steps_is_the_shorter(first: float, second: float, same_job: bool) -> None:
    there = probability_shorter(first, second, same_job=same_job)
    back = probability_shorter(second, first, same_job=same_job)
    assert there + back == pytest.approx(1)
    assert (there > 0.5) == (second < first) or there == 0.5


def test_a_step_shorter_by_one_spread_is_so_five_times_of_six() -> None:
    longer = 2.718281828459045**FASTER_SPREAD
    assert probability_shorter(longer, 1.0, same_job=True) == pytest.approx(0.841, abs=1e-3)
    assert 0.5 < probability_shorter(longer, 1.0, same_job=False) < 0.75


def test_a_plan_that_fills_the_device_as_others_were_measured_fits_half_of_the_time() -> None:
    held = round(80e9 / MEMORY_RATIO)
    full = MemoryUse(parameters=held, reserved=4_000_000_000, capacity=80_000_000_000)
    assert probability_fits(full) == pytest.approx(0.5, abs=1e-3)
    roomy = full.model_copy(update={"parameters": held // 2})
    over = full.model_copy(update={"parameters": held * 2})
    assert probability_fits(roomy) > 0.99
    assert probability_fits(over) < 0.01
    assert probability_fits(MemoryUse()) == 1
    assert probability_fits(full, "megatron-core") < 0.5
    assert probability_fits(roomy, "megatron-core") < probability_fits(roomy)
