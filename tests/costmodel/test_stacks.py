"""Software stacks: calibrations and intervals."""

from __future__ import annotations

import statistics
from typing import get_args

import pytest

from meshwright.capture.decoder import Decoder, decoder_graph
from meshwright.schema import Request, Setup
from meshwright.schema.stack import STACKS, Stack, interval_of, stack_ratios
from meshwright_costmodel.calibrations import (
    calibration_for,
    datasheet_calibration,
    shipped_calibration,
    stack_calibration,
    with_kernels_of,
)
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from meshwright_solver.verification.verify import verify_documents

SMALL = Decoder(layers=2, hidden=1024, heads=8, ffn=2816, vocabulary=32000)
NAMES: tuple[Stack, ...] = get_args(Stack)


def test_every_stack_has_a_profile() -> None:
    assert set(NAMES) == set(STACKS)


@pytest.mark.parametrize("stack", NAMES)
def test_the_calibration_of_a_stack_is_shipped_and_says_where_its_ratio_is_from(
    stack: Stack,
) -> None:
    calibration = stack_calibration(stack)
    assert shipped_calibration(calibration.id) == calibration
    assert calibration.anchored is not None
    assert calibration.anchored.stack == stack
    base = with_kernels_of(stack)
    assert calibration.anchored.calibration == base.id
    assert shipped_calibration(base.id) == base
    assert calibration.anchored.ratio == statistics.median(stack_ratios(stack))


@pytest.mark.parametrize("stack", [None, *NAMES])
def test_an_interval_has_its_prediction_inside_and_that_of_a_stack_is_the_narrower(
    stack: Stack | None,
) -> None:
    low, high = interval_of(stack)
    assert low < 1 < high
    whole_low, whole_high = interval_of(None)
    assert high / low <= whole_high / whole_low * 1.01


@pytest.mark.parametrize("stack", NAMES)
def test_a_stack_has_its_kernels_and_its_ratio_and_its_plan_is_found_right(stack: Stack) -> None:
    graph = decoder_graph(SMALL, batch=16, seq=1024)
    without = Request(graph=graph, topology=preset("h100-1x4"), setup=Setup(microbatches=1))
    own = without.model_copy(update={"setup": Setup(microbatches=1, stack=stack)})
    kernels = without.model_copy(update={"calibration": with_kernels_of(stack)})
    found, before, slower = plan(own).plan, plan(without).plan, plan(kernels).plan
    assert found is not None
    assert before is not None
    assert found.calibration == stack_calibration(stack).id
    assert slower is not None
    assert slower.cost.step_ns >= before.cost.step_ns
    ratio = statistics.median(stack_ratios(stack))
    assert found.cost.step_ns == pytest.approx(ratio * slower.cost.step_ns, rel=0.02)
    certificate = verify_documents(found, own.graph, own.topology, own.setup)
    assert certificate.outcome == "verified"


def test_a_calibration_of_the_request_is_used_as_it_is() -> None:
    own = Request(
        graph=decoder_graph(SMALL, batch=16, seq=1024),
        topology=preset("h100-1x4"),
        setup=Setup(stack="torchtitan"),
        calibration=datasheet_calibration(),
    )
    assert calibration_for(own) == datasheet_calibration()
