"""Plans under autocast beside those in bfloat16 with a master copy, of the same language model."""

from __future__ import annotations

import math

import pytest

from meshwright.capture import capture_hf
from meshwright.schema import Graph, Plan, Request, Setup
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.simulation.step import step_of
from meshwright_solver.simulation.summary import rank_step
from meshwright_solver.verification.verify import verify_documents
from tests.one_stage import one_stage_request
from tests.solver.requests import planned

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048,
    "intermediate_size": 5632, "num_hidden_layers": 4, "num_attention_heads": 16,
    "num_key_value_heads": 16, "vocab_size": 32000, "max_position_embeddings": 2048,
}  # fmt: skip
CAPTURES = {"low": {"dtype": "bfloat16"}, "autocast": {"autocast": "bfloat16"}}
CLUSTER, SETUP = preset("h100-1x8"), Setup(microbatches=1)


@pytest.fixture(scope="module")
def requests() -> dict[str, Request]:
    graphs = {n: capture_hf(CONFIG, batch=32, seq=2048, **CAPTURES[n]) for n in CAPTURES}
    return {n: one_stage_request(graph=g, topology=CLUSTER, setup=SETUP) for n, g in graphs.items()}


@pytest.fixture(scope="module")
def plans(requests: dict[str, Request]) -> dict[str, Plan]:
    return {name: planned(request) for name, request in requests.items()}


def parameters(graph: Graph) -> int:
    shapes = graph.instantiate({})
    return sum(math.prod(shapes[t.name]) for t in graph.tensors if t.role == "parameter")


def test_the_step_is_that_of_low_precision_and_the_casts(plans: dict[str, Plan]) -> None:
    low, autocast = (plans[name].cost.step_ns for name in ("low", "autocast"))
    assert low < autocast < 1.1 * low


def test_states_hold_one_float32_copy_and_no_more(
    plans: dict[str, Plan], requests: dict[str, Request]
) -> None:
    """By hand, of each parameter: 4 bytes of value, 4 of gradient, 8 of AdamW's states, sharded.

    In low precision: 4 of master copy beside the states, and the value of 2 bytes as it is read.
    """
    count = parameters(requests["autocast"].graph)
    memory = plans["autocast"].cost.memory_bytes
    everything = memory.parameters + memory.gradients + memory.optimizer
    assert everything == pytest.approx(count * (4 + 4 + 8) / 8, rel=0.05)
    low = plans["low"].cost.memory_bytes
    assert low.optimizer == pytest.approx(count * (4 + 8) / 8, rel=0.05)
    # the residual stream in float32 and its norms
    assert low.activations < memory.activations < 1.5 * low.activations


def test_the_objective_counts_casts_of_parameters_as_it_counts_parameters(
    plans: dict[str, Plan], requests: dict[str, Request]
) -> None:
    plan, graph = plans["autocast"], requests["autocast"].graph
    weights = {t.name for t in graph.tensors if t.role == "parameter"}
    casts = {
        op.outputs[0] for op in graph.ops if op.kind == "cast" and not weights.isdisjoint(op.inputs)
    }
    moved = [m for m in plan.stages[0].redistributions if m.tensor in casts]
    assert len(moved) >= len(casts) / 2
    exposed = default_calibration().exposed
    assert exposed.parameter == exposed.gradient
    for one in moved:
        assert one.traffic == "activation"
        assert one.counted_ns == pytest.approx(one.ns * exposed.parameter)
    others = [m for m in plan.stages[0].redistributions if m.traffic == "activation"]
    assert all(m.counted_ns == m.ns for m in others if m.tensor not in casts)


def test_the_simulated_step_is_the_predicted_one(
    plans: dict[str, Plan], requests: dict[str, Request]
) -> None:
    plan, request = plans["autocast"], requests["autocast"]
    step = step_of(plan, request.graph, CLUSTER, SETUP, None)
    assert step.ns == pytest.approx(plan.cost.step_ns, rel=0.01)
    assert rank_step(step, 0).compute_ns == pytest.approx(plan.cost.compute_ns)


def test_the_plan_computes_what_one_device_does(
    plans: dict[str, Plan], requests: dict[str, Request]
) -> None:
    plan, request = plans["autocast"], requests["autocast"]
    certificate = verify_documents(plan, request.graph, CLUSTER, SETUP)
    assert certificate.outcome == "verified"
