"""Published rows as plans: the judge of `meshwright estimate` prices them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from bench.published_plans import FITTED as GIVEN
from bench.published_plans import HELD_OUT, TOO_LARGE, priced, thinned
from meshwright.runs import NotPredictable, read, request_of
from meshwright.runs.table import measured
from meshwright.schema import Degrees, Graph, Recompute, Request, Setup
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan

GRAPHS = Path(__file__).parents[2] / "examples" / "graphs"
ROWS = {row["row_id"]: row for row in read(GIVEN)}


def test_a_row_costs_to_the_last_digit_what_estimate_says_of_the_captured_graph() -> None:
    graph = Graph.from_json(gzip.decompress((GRAPHS / "llama3-8b.json.gz").read_bytes()))
    row = ROWS["flagperf_nvidia-0012"]  # 16 H100, tp 2, batch 512
    stated = Request(
        graph=graph,
        topology=preset("h100-2x8"),
        setup=Setup(global_batch=512, microbatches=64, uneven="pad"),
        degrees=Degrees(tp=2, zero=1, sequence_parallel=True),
        recompute=Recompute(policy="none"),
    )
    answer = plan(stated)
    assert answer.plan is not None
    assert priced(row).step_s == answer.plan.cost.step_ns / 1e9


@pytest.mark.parametrize("source", ["korthikanti22", "nemo_24", "internevo"])
def test_rows_are_predicted_within_a_fifth_of_the_measured_step(source: str) -> None:
    own = [row for row in ROWS.values() if row["source_id"] == source]
    found = [priced(row) for row in list(thinned(own, len(own)))[:4]]
    errors = [abs(each.step_s / measured(each.row, "step_time_s") - 1) for each in found]
    assert np.mean(errors) < 0.2, [each.reason for each in found]


def test_a_row_that_no_plan_describes_says_why() -> None:
    row = ROWS["flagperf_nvidia-0012"]
    with pytest.raises(NotPredictable, match=r"are not 16 devices"):
        request_of({**row, "gpus": "16", "tp": "3", "dp": ""})
    found = priced({**row, "hidden": ""})
    assert "hidden" in found.reason
    assert np.isnan(found.step_s)


def test_configurations_that_did_not_fit_are_refused() -> None:
    """Six that were published as out of memory."""
    found = [priced(row) for row in read(TOO_LARGE)]
    assert len(found) == 6
    assert sum(each.fits for each in found) <= 1, [each.memory_bytes for each in found]


def test_runs_that_nothing_was_fitted_to_are_predicted_within_a_fifth() -> None:
    """Dense models of NeMo on H100, in 8 bits, with the ratio of the stack."""
    own = [row for row in read(HELD_OUT) if row["source_id"] == "nemo_2412"][::4]
    found = [priced(row, "ratio") for row in own]
    errors = [abs(each.step_s / measured(each.row, "step_time_s") - 1) for each in found]
    assert max(errors) < 0.2, [each.reason for each in found]
