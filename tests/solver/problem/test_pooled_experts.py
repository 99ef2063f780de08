"""Experts of decode steps: what is pooled, and that plans of it are right."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.capture.decoder import Decoder, decoder_graph
from meshwright.schema import Budget, Cache, Graph, Pin, Setup
from meshwright_costmodel.presets import preset
from meshwright_solver.problem.inference_graph import for_inference
from meshwright_solver.problem.problem import build_problem
from meshwright_solver.verification.verify import verify_documents
from tests.one_stage import one_stage_request
from tests.solver.requests import planned
from tests.solver.small_graphs import toy_calibration


def mixture(experts: int, choices: int, *, seq: int = 96, shared: int = 0) -> Graph:
    decoder = Decoder(
        layers=2, hidden=64, heads=4, vocabulary=128, ffn=96, experts=experts, top_k=choices,
        expert_ffn=32, shared_ffn=shared,
    )  # fmt: skip
    return decoder_graph(decoder, batch=8, seq=seq)


def decode(batch: int, rows: int = 1) -> Setup:
    return Setup(
        phase="inference", symbols={"seq": rows}, global_batch=batch, cache=Cache(context=64)
    )


def slots_of(graph: Graph, setup: Setup) -> dict[str, tuple[int, ...]]:
    problem = build_problem(graph, preset("h100-1x4"), setup, toy_calibration())
    return {
        op.op.name: problem.tensors[op.outputs[0].tensor].shape
        for op in problem.ops
        if op.op.kind == "moe_dispatch"
    }


@given(
    experts=st.integers(2, 40),
    choices=st.integers(1, 8),
    batch=st.integers(1, 40),
    shared=st.sampled_from((0, 32)),
)
def test_pooled_slots_hold_one_token_of_every_sequence(
    experts: int, choices: int, batch: int, shared: int
) -> None:
    choices = min(choices, experts)
    graph = mixture(experts, choices, shared=shared)
    setup = decode(batch)
    pooled = for_inference(graph, setup)
    assert for_inference(pooled, setup) is pooled
    assert pooled.outputs == for_inference(graph, decode(batch, 64)).outputs
    for shape in slots_of(graph, setup).values():
        slots = shape[1] * shape[2]
        assert slots == math.ceil(batch * choices / experts)
        assert slots * experts - batch * choices < experts


def test_a_prompt_keeps_the_slots_of_each_sequence() -> None:
    graph = mixture(8, 2)
    whole = for_inference(graph, decode(4, 64))
    assert not [op.name for op in whole.ops if op.name.endswith("(pooled) (transpose)")]
    assert set(slots_of(graph, decode(4, 64)).values()) == {(8, 4, 16, 64)}


def test_slots_follow_from_another_sequence_where_experts_do_not_divide() -> None:
    graph = mixture(6, 4, seq=32)  # 21.3 slots, rounded up to 24
    assert set(slots_of(graph, Setup(symbols={"seq": 32})).values()) == {(6, 8, 24, 64)}
    assert set(slots_of(graph, Setup(symbols={"seq": 96})).values()) == {(6, 8, 64, 64)}


@pytest.mark.parametrize(
    ("pins", "batch"),
    [
        ((), 8),
        ((), 3),
        ((Pin(op="*.expert_matmul*", strategy={"e": ("gpu",)}),), 8),
        ((Pin(op="*.moe_dispatch", strategy={"s": ("gpu",)}),), 8),
    ],
)
def test_plans_of_a_decode_step_are_verified(pins: tuple[Pin, ...], batch: int) -> None:
    graph = mixture(4, 2, shared=32)
    request = one_stage_request(
        graph=graph,
        topology=preset("h100-1x4"),
        setup=decode(batch),
        pins=pins,
        budget=Budget(max_axes=1),
    )
    plan = planned(request)
    certificate = verify_documents(
        plan, graph, request.topology, request.setup, request.calibration, 0
    )
    assert certificate.outcome == "verified", certificate.detail
