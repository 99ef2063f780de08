"""Saved activations of routed experts and of latent attention, worked by hand."""

from __future__ import annotations

import pytest
import torch

from examples.models.latent_attention import Sizes, latent_attention
from meshwright.capture import capture_module
from meshwright.schema import Budget, Pin, Plan, Setup
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import GraphMaker, topology

ONE = Setup(microbatches=1)


def saved(plan: Plan) -> dict[str, int]:
    return {t.tensor: t.saved_bytes for t in plan.stages[0].tensors if t.saved_bytes}


B, S, H, E, K, F, CAPACITY = 4, 16, 8, 4, 2, 32, 2


def experts() -> GraphMaker:
    """A router over 4 experts, 2 a token, with twice the slots that even routing needs."""
    slots = S * K * CAPACITY // E
    maker = GraphMaker("bfloat16", batch=B)
    x = maker.op("gelu", [maker.parameter("p", B, S, H)], [B, S, H], "x")
    scores = maker.op("linear", [x, maker.parameter("gate", E, H)], [B, S, E], "scores")
    shares = maker.op("softmax", [scores], [B, S, E], "shares", attrs={"dim": 2})
    values = maker.tensor("values", [B, S, K])
    chosen = maker.tensor("chosen", [B, S, K], dtype="int64")
    maker.ops.append(
        {"name": "top", "kind": "topk", "inputs": [shares], "outputs": [values, chosen],
         "attrs": {"k": K, "dim": 2}}
    )  # fmt: skip
    attrs = {"capacity_factor": float(CAPACITY)}
    sent = maker.op("moe_dispatch", [x, chosen], [E, B, slots, H], "dispatch", attrs=attrs)
    up = maker.parameter("up", E, F, H)
    wide = maker.op("expert_matmul", [sent, up], [E, B, slots, F], "wide")
    act = maker.op("silu", [wide], [E, B, slots, F], "act")
    down = maker.parameter("down", E, H, F)
    back = maker.op("expert_matmul", [act, down], [E, B, slots, H], "back")
    maker.op("moe_combine", [back, chosen, values], [B, S, H], "combine", attrs=attrs)
    return maker


@pytest.mark.parametrize("expert_parallel", [False, True])
def test_experts_keep_their_buffers_at_full_capacity(expert_parallel):
    over = 4 if expert_parallel else 1
    pins = [Pin(op="*", strategy={})]
    if expert_parallel:
        pins = [Pin(op=op, strategy={"b": ("gpu",)}) for op in ("dispatch", "combine")]
        pins += [Pin(op=op, strategy={"e": ("gpu",)}) for op in ("wide", "back")]
        pins += [Pin(op="act", strategy={"d0": ("gpu",)})]
        pins += [Pin(op=op, strategy={"d0": ("gpu",)}) for op in ("x", "shares", "top")]
        pins += [Pin(op="scores", strategy={"b0": ("gpu",)})]
    graph = experts().graph("combine:out")
    plan = planned(
        toy_request(
            graph=graph, topology=topology(over), setup=ONE, pins=tuple(pins),
            budget=Budget(max_axes=1),
        )
    )  # fmt: skip
    slots = B * S * K * CAPACITY  # of all experts: 2 for each of 2 choices of a token
    own = {
        "x:out": B * S * H * 2,  # read by the gate's product
        "shares:out": B * S * E * 2,  # the softmax keeps its result
        "chosen": B * S * K * 8,  # places, for top-k, dispatch and combination together
        "values": B * S * K * 2,
        "dispatch:out": slots * H * 2,  # what the products read and make, empty slots with them
        "wide:out": slots * F * 2,
        "act:out": slots * F * 2,
        "back:out": slots * H * 2,
    }
    assert saved(plan) == {name: size // over for name, size in own.items()}
    assert plan.cost.memory_bytes.activations == sum(own.values()) // over


def test_a_copy_that_no_gradient_reads_is_neither_saved_nor_gathered_again():
    """The softmax keeps its part of what it made; who adds it up elsewhere needs no values."""
    maker = GraphMaker(batch=B)
    given = maker.op("linear", [maker.parameter("p", B, H), maker.parameter("w", H, H)], [B, H])
    shares = maker.op("softmax", [given], [B, H], "shares", attrs={"dim": 1})
    sums = [maker.op("add", [shares, given], [B, H], name) for name in ("one", "two")]
    total = maker.op("add", sums, [B, H], "total")
    pins = [Pin(op=op, strategy={}) for op in ("one", "two", "total")]
    pins.append(Pin(op="shares", strategy={"d0": ("gpu",)}))
    plan = planned(
        toy_request(
            graph=maker.graph(total), topology=topology(2), setup=ONE, pins=tuple(pins),
            budget=Budget(max_axes=1),
        )
    )  # fmt: skip
    own = next(t for t in plan.stages[0].tensors if t.tensor == shares)
    assert own.read is not None
    assert own.read != own.rest
    assert (own.saved, own.saved_bytes) == ("rest", B * H * 4 // 2)
    (move,) = [m for m in plan.stages[0].redistributions if m.tensor == shares]
    assert [step.kind for step in move.forward] == ["all_gather"]
    assert not move.again
    ns = sum(step.ns for step in (*move.forward, *move.backward))
    assert move.ns == pytest.approx(ns)


def test_latent_attention_keeps_queries_in_the_width_of_latents():
    own = Sizes(hidden=64, heads=4, head=16, rotary=8, latent=32, vocabulary=128, layers=1)
    with torch.device("meta"):
        recipe = latent_attention(own, batch=B, seq=S)
    graph = capture_module(recipe.module, recipe.inputs, symbols=recipe.symbols, name="latent")
    plan = planned(
        toy_request(graph=graph, topology=topology(1), setup=ONE, budget=Budget(max_axes=1))
    )
    tokens = B * S
    expected = {
        "words": tokens * 64,  # the norm's input
        "norms.0": tokens * 64,  # of both projections
        "layers.0.split_2:0": tokens * 32,  # the latents before their norm
        "layers.0.reshape_2": 0,  # the latents: below, as `layers.0.norm` of which they are a view
        "layers.0.norm": tokens * 32,  # attention's values
        "layers.0.split:0": tokens * 4 * 16,  # of the product with key_up
        "layers.0.concat_3": tokens * 4 * (32 + 8),  # queries
        "layers.0.concat_4": tokens * (32 + 8),  # one key for all heads
        "layers.0.attention": tokens * 4 * 32,  # its result, which value_up multiplies
        "layers.0.matmul_2": tokens * 4 * 16,  # of the projection back
        "add": tokens * 64,  # of the head
        "cast_3": 2 * tokens * 128,  # logits in float32
    }
    found = saved(plan)
    assert found == {name: 2 * count for name, count in expected.items() if count}
