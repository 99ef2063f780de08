"""The runtime on one GPU: plans have the loss, gradients and peak memory that they promise."""

from __future__ import annotations

import pytest

from bench.gpu.cases import EQUAL, Case
from bench.gpu.runtime import compare_runtime, measure_runtime
from bench.gpu.training import release
from meshwright.planfile import read_plan
from tests.gpu.conftest import Planned

# chosen: of a tensor's norm; bfloat16 has 8 bits, and orders of sums differ
WORST = {"float32": 1e-4, "autocast": 3e-2}
# chosen: around the predicted peak, for the libraries' workspaces
PEAK_FACTOR = 1.3


@pytest.mark.parametrize("case", EQUAL, ids=lambda case: case.name)
def test_a_plan_has_the_loss_and_the_gradients_of_the_module(case: Case, planned: Planned) -> None:
    compared = compare_runtime(case, planned(case))
    assert compared["loss_error"] < WORST[case.precision]
    assert compared["gradient_error"] < WORST[case.precision], compared["worst_gradient"]


def test_a_plan_needs_the_peak_memory_that_it_predicts(planned: Planned) -> None:
    release()
    path = planned(EQUAL[0])
    memory = read_plan(path).plan.cost.memory_bytes
    measured = measure_runtime(EQUAL[0], path)["peak_bytes"]
    predicted = memory.total - memory.reserved
    assert predicted / PEAK_FACTOR < measured < predicted * PEAK_FACTOR
