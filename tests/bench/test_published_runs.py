"""Published configurations as rows of `bench.published`."""

from __future__ import annotations

import pytest

from bench.published_configurations import CASES, Published
from bench.published_rows import rows_of
from bench.published_runs import run_of
from meshwright_costmodel.presets import preset


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_row_says_what_the_configuration_does(case: Published) -> None:
    devices = preset(case.topology).device_count
    row = run_of(
        case.graph, case.topology, devices=devices, batch=case.batch,
        microbatches=case.microbatches, degrees=case.degrees, pipeline=case.pipeline,
        sequence=case.sequence, recompute=case.recompute.policy,
    )  # fmt: skip
    runs = rows_of([row]).runs
    (dp, tp, pp, cp), (mbs, zero) = (
        [float(getattr(runs, name)[0]) for name in names]
        for names in (("dp", "tp", "pp", "cp"), ("microbatch", "zero"))
    )
    assert dp * tp * pp * cp == devices
    assert (tp, cp, zero) == (case.degrees.tp, case.degrees.cp, case.degrees.zero)
    assert dp * mbs * case.microbatches == case.batch
    # 405B over 131,072 tokens is told a third too long (docs/cost-model.md)
    if case.measured_s is not None:
        assert 0.85 <= case.closed_form_s / case.measured_s <= 1.35
