from __future__ import annotations

import numpy as np
import pytest

from bench.closed_form.constants import CONSTANTS, PRIOR, SPREAD, Constants
from bench.closed_form.fit import fit
from bench.closed_form.runs import Runs
from bench.closed_form.step import steps
from tests.bench.closed_form.runs_of_tests import EAGER, PRIORS, a_run

SIZES = np.array([512, 1024, 2048, 4096, 8192], dtype=float)


def sweep() -> Runs:
    """Eager runs over widths, microbatches and tensor-parallel degrees."""
    hidden, microbatch, tp = (
        axis.ravel() for axis in np.meshgrid(SIZES, [1.0, 4.0, 16.0], [1.0, 2.0, 8.0])
    )
    return a_run(
        hidden=hidden, ffn=4 * hidden, heads=hidden / 64, kv_heads=hidden / 64, head_dim=64,
        microbatch=microbatch, batch=8 * microbatch, tp=tp, stack=EAGER, flash=0,
    )  # fmt: skip


def sources(runs: Runs) -> np.ndarray:
    return np.array(["one"] * len(runs))


def test_fitting_finds_the_constants_that_made_the_steps():
    changed = {"matmul.ampere": 0.6, "launch.eager": 1e-3, "memory": 0.7}
    true = Constants.of({own.name: changed.get(own.name, own.prior) for own in CONSTANTS})
    runs = sweep()
    measured = steps(runs, true).total
    found = fit(runs, measured, sources(runs)).constants
    assert found["launch.eager"] == pytest.approx(1e-3, rel=0.05)
    assert found["matmul.ampere"] == pytest.approx(0.6, rel=0.05)
    assert steps(runs, found).total == pytest.approx(measured, rel=0.02)


def test_a_few_wrong_measurements_move_little():
    runs = sweep()
    measured = steps(runs, PRIORS).total
    measured[[3, 20]] *= 5
    found = fit(runs, measured, sources(runs)).constants
    rest = np.delete(np.arange(len(runs)), [3, 20])
    assert steps(runs, found).total[rest] == pytest.approx(measured[rest], rel=0.05)


def test_what_no_step_depends_on_keeps_its_prior_and_its_spread():
    runs = sweep()
    found = fit(runs, 1.3 * steps(runs, PRIORS).total, sources(runs))
    place = [own.name for own in CONSTANTS].index("matmul.blackwell")
    assert found.constants.logs[place] == pytest.approx(PRIOR[place])
    assert found.spreads[place] == pytest.approx(SPREAD[place])
    measured = [own.name for own in CONSTANTS].index("launch.eager")
    assert found.spreads[measured] < SPREAD[measured]


def test_a_source_of_many_rows_weighs_as_much_as_one_of_few():
    few = a_run(stack=EAGER, microbatch=16, batch=64)
    many = Runs.of({name: np.repeat(getattr(few, name), 40) for name in few.__dataclass_fields__})
    usual = float(steps(few, PRIORS).total[0])
    measured = np.array([1.01 * usual] + [usual / 1.01] * 39)
    found = fit(many, measured, np.array(["few"] + ["many"] * 39)).constants
    assert steps(few, found).total[0] == pytest.approx(usual, rel=0.002)
