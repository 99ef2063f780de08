"""Tokens that travel once to each node: which values, and that plans of them are found right."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.capture.decoder import Decoder, decoder_graph
from meshwright.schema import Degrees, Recompute, Request, Setup, SetupError
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.verification.verify import verify_documents
from tests.solver.small_graphs import toy_calibration

MIXTURE = Decoder(
    layers=2, hidden=512, heads=8, vocabulary=1024, experts=16, top_k=4, expert_ffn=1024
)
GRAPH = decoder_graph(MIXTURE, batch=16, seq=512)
CLUSTER = preset("h100-2x8")


def of_dispatch(**setup: object) -> set[str]:
    """The values whose tokens travel once to each node."""
    found = build_problem(
        GRAPH, CLUSTER, Setup.model_validate({"microbatches": 1, **setup}), toy_calibration()
    )
    values = find_values(found).values
    return {value.root for value in values if found.top_k_of(value.slot_of)}


def test_dispatched_tokens_and_results_travel_once_to_each_node() -> None:
    assert of_dispatch() == set()
    assert of_dispatch(expert_dispatch="node") == {
        f"model.layers.{layer}.mlp.experts.{name}"
        for layer in range(2)
        for name in ("moe_dispatch", "expert_matmul_2")
    }


def test_a_limit_of_nodes_without_such_a_dispatch_is_refused() -> None:
    with pytest.raises(SetupError, match="expert_nodes 2 needs expert_dispatch node"):
        Setup(expert_nodes=2)


def test_a_plan_waits_less_for_tokens_that_travel_once_to_each_node() -> None:
    waits = []
    for setup in (
        Setup(microbatches=1),
        Setup(microbatches=1, expert_dispatch="node"),
        Setup(microbatches=1, expert_dispatch="node", expert_nodes=1),
    ):
        request = Request(
            graph=GRAPH,
            topology=CLUSTER,
            setup=setup,
            degrees=Degrees(ep=16, zero=1),
            recompute=Recompute(policy="none"),
        )
        found = plan(request).plan
        assert found is not None
        waits.append(found.cost.communication_ns["activation"])
        certificate = verify_documents(found, GRAPH, CLUSTER, setup)
        assert certificate.outcome == "verified"
    assert np.all(np.diff(waits) < 0)
