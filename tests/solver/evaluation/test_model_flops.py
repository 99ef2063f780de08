"""Model FLOPs of a step: what the model needs, whatever the plan does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.schema import Degrees, Graph, Pipeline, Plan, Recompute, Request, Setup
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from tests.solver.layered import layered
from tests.solver.small_graphs import GraphMaker, toy_calibration


def planned(graph: Graph, devices: str = "h100-1x2", **wishes: object) -> Plan:
    request = {
        "graph": graph, "topology": preset(devices), "calibration": toy_calibration(), **wishes,
    }  # fmt: skip
    found = plan(Request.model_validate(request)).plan
    assert found is not None
    return found


def test_layers_of_products() -> None:
    """8 sequences of 4 positions, width 64: a layer's product takes 2*32*64*64 FLOPs, three times
    with the gradients of both operands; the classifier's 2*32*64*32."""
    flops = planned(layered(4, batch=8)).model_flops
    assert flops == {"float32": 3 * (4 * 2 * 32 * 64 * 64 + 2 * 32 * 64 * 32)}


def test_the_first_product_has_no_gradient_of_its_input() -> None:
    maker = GraphMaker(batch=8)
    x = maker.input("x", "batch", 16)
    hidden = maker.op("linear", [x, maker.parameter("up", 32, 16)], ["batch", 32], "up")
    made = maker.op("linear", [hidden, maker.parameter("down", 4, 32)], ["batch", 4], "down")
    loss = maker.op("sum", [made], [], "loss", attrs={"dims": [0, 1]})
    flops = planned(maker.graph(loss, loss=loss)).model_flops
    assert flops == {"float32": 2 * (2 * 8 * 16 * 32) + 3 * (2 * 8 * 32 * 4)}


def test_inference_runs_forward_only() -> None:
    graph = layered(4, batch=8)
    training = planned(graph).model_flops["float32"]
    inference = planned(graph, setup=Setup(phase="inference")).model_flops["float32"]
    assert training == 3 * inference


@settings(max_examples=20, deadline=None)
@given(
    layers=st.integers(4, 8),
    microbatches=st.sampled_from([1, 2, 4]),
    wishes=st.sampled_from([
        {},
        {"pipeline": Pipeline(ranks=2)},
        {"pipeline": Pipeline(ranks=4)},
        {"recompute": Recompute(policy="full")},
        {"degrees": Degrees(tp=2)},
        {"degrees": Degrees(dp=8, zero=3)},
    ]),
)  # fmt: skip
def test_they_depend_on_the_model_and_the_batch_alone(
    layers: int, microbatches: int, wishes: dict[str, object]
) -> None:
    graph = layered(layers, batch=32)
    setup = Setup(global_batch=32, microbatches=microbatches)
    flops = planned(graph, "h100-1x8", setup=setup, **wishes).model_flops
    assert flops == pytest.approx({"float32": 3 * (layers * 2 * 128 * 64 * 64 + 2 * 128 * 64 * 32)})
