"""Gains of 8 bits: predicted against published."""

from __future__ import annotations

import pytest

from bench.published_precision import PAIRS


@pytest.mark.parametrize("pair", PAIRS[2:4], ids=lambda pair: pair.topology)
def test_gains_that_no_constant_was_fitted_to_are_predicted_within_a_tenth(pair) -> None:
    before, after = pair.measured_s
    predicted = pair.predicted_s("graph") / pair.predicted_s("fp8_tensorwise")
    assert predicted == pytest.approx(before / after, rel=0.1)
