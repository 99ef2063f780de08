"""The interval of a step: for which plans there is one."""

from __future__ import annotations

import pytest

from meshwright.capture.decoder import Decoder, decoder_graph
from meshwright.reports.step_interval import step_interval_ns
from meshwright.schema import Plan, Request, Setup
from meshwright_costmodel.anchoring import anchored
from meshwright_costmodel.calibrations import (
    datasheet_calibration,
    published_calibration,
    stack_calibration,
)
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan

SMALL = Decoder(layers=1, hidden=256, heads=4, ffn=512, vocabulary=512)


@pytest.fixture(scope="module")
def planned() -> Plan:
    graph = decoder_graph(SMALL, batch=8, seq=64)
    found = plan(Request(graph=graph, topology=preset("h100-1x2"))).plan
    assert found is not None
    return found


def test_plans_of_the_published_calibration_and_of_stacks_have_one(planned: Plan) -> None:
    step = planned.cost.step_ns
    any_stack = step_interval_ns(planned, Setup(), None)
    assert any_stack is not None
    assert any_stack[0] < step < any_stack[1]
    assert step_interval_ns(planned, Setup(), published_calibration()) == any_stack
    own = Setup(stack="internevo")
    of_stack = step_interval_ns(planned, own, stack_calibration("internevo"))
    assert of_stack is not None
    assert of_stack[1] - of_stack[0] < any_stack[1] - any_stack[0]


def test_calibrations_of_a_cluster_and_inference_have_none(planned: Plan) -> None:
    observed = anchored(published_calibration(), [1.2, 1.3], "torchtitan")
    for calibration in (datasheet_calibration(), observed):
        assert step_interval_ns(planned, Setup(), calibration) is None
    assert step_interval_ns(planned, Setup(phase="inference"), None) is None
