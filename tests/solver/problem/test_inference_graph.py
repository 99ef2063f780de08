"""Inference over a cache of keys and values: what is cached, what it takes, whether it is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from examples.catalogue import EXAMPLES
from examples.models.latent_attention import Sizes, latent_attention
from meshwright.capture import capture_module
from meshwright.schema import (
    Budget,
    Cache,
    Graph,
    InvalidInput,
    Pin,
    Plan,
    Request,
    Setup,
    SetupError,
)
from meshwright.transfers.pieces import device_transfer
from meshwright_costmodel.presets import preset
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.layouts.transfers.plans import PlanDocuments, transfer_plans
from meshwright_solver.problem.inference_graph import for_inference
from meshwright_solver.verification.verify import verify_documents
from tests.one_stage import one_stage_request
from tests.solver.requests import planned, problem_of, refused, toy_request
from tests.solver.small_graphs import GraphMaker, topology

BATCH, HEADS, GROUPS, WIDTH, CONTEXT, LAYERS = 8, 8, 4, 16, 64, 2
HIDDEN = HEADS * WIDTH


def decoder() -> Graph:
    """Two layers of causal attention with 8 heads for 4 of keys and values, and a loss."""
    maker = GraphMaker("bfloat16", batch=BATCH, seq=32)
    shape = ["batch", "seq", HIDDEN]
    ids = maker.input("ids", "batch", "seq", dtype="int64")
    x = maker.op("embedding", [maker.parameter("words", 64, HIDDEN), ids], shape, "embed")
    for layer in range(LAYERS):
        own = []
        for name, heads in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)):
            weight = maker.parameter(f"{layer}.w{name}", heads * WIDTH, HIDDEN)
            y = maker.op(
                "linear", [x, weight], ["batch", "seq", heads * WIDTH], f"{layer}.{name} proj"
            )
            y = maker.op("reshape", [y], ["batch", "seq", heads, WIDTH], f"{layer}.{name} split")
            own.append(
                maker.op(
                    "transpose", [y], ["batch", heads, "seq", WIDTH], f"{layer}.{name}",
                    attrs={"dims": [0, 2, 1, 3]},
                )
            )  # fmt: skip
        attrs = {"causal": True, "scale": WIDTH**-0.5}
        y = maker.op(
            "attention", own, ["batch", HEADS, "seq", WIDTH], f"{layer}.attention", attrs=attrs
        )
        y = maker.op(
            "transpose",
            [y],
            ["batch", "seq", HEADS, WIDTH],
            f"{layer}.turn",
            attrs={"dims": [0, 2, 1, 3]},
        )
        y = maker.op("reshape", [y], shape, f"{layer}.join")
        y = maker.op(
            "linear", [y, maker.parameter(f"{layer}.wo", HIDDEN, HIDDEN)], shape, f"{layer}.o"
        )
        y = maker.op("dropout", [y], shape, f"{layer}.dropout", attrs={"p": 0.1})
        x = maker.op("add", [x, y], shape, f"{layer}.residual")
    head = maker.parameter("head", 64, HIDDEN)
    logits = maker.op("linear", [x, head], ["batch", "seq", 64], "logits")
    label = maker.tensor("label", ["batch", "seq"], "label", dtype="int64")
    loss = maker.op("cross_entropy", [logits, label], [], "loss")
    return maker.graph(loss, loss=loss)


def serving(seq: int = 1, context: int = CONTEXT, **more: Any) -> Setup:
    cache = Cache(context=context, dtype=more.pop("dtype", None))
    return Setup(phase="inference", symbols={"seq": seq}, cache=cache, **more)


def request(setup: Setup, devices: int, pins: tuple[Pin, ...] = ()) -> Request:
    graph, devices_ = decoder(), topology(devices)
    return toy_request(
        graph=graph, topology=devices_, setup=setup, pins=pins, budget=Budget(max_axes=2)
    )


def cache_bytes(plan: Plan) -> int:
    return plan.cost.memory_bytes.cache


# batch x heads of keys x context x width, of keys and of values, 2 bytes, 2 layers
ALL_BYTES = BATCH * GROUPS * CONTEXT * WIDTH * 2 * 2 * LAYERS


def test_the_loss_and_dropout_are_left_out_and_the_graph_keeps_its_id():
    graph = decoder()
    found = for_inference(graph, Setup(phase="inference"))
    assert found.outputs == ("logits:out",)
    assert found.loss is None
    assert {"loss", "0.dropout"}.isdisjoint(op.name for op in found.ops)
    (residual,) = [op for op in found.ops if op.name == "0.residual"]
    assert residual.inputs == ("embed:out", "0.o:out")
    assert found.id == graph.id
    assert for_inference(graph, Setup()) is graph


def test_what_attention_reads_comes_out_of_a_cache_and_twice_is_once():
    setup = serving()
    found = for_inference(decoder(), setup)
    caches = {t.name: t.shape for t in found.tensors if t.role == "cache"}
    assert caches == {
        f"{layer}.{name}:out (cache)": ("batch", GROUPS, "context", WIDTH)
        for layer in range(LAYERS)
        for name in "kv"
    }
    (attention,) = [op for op in found.ops if op.name == "1.attention"]
    assert attention.inputs == ("1.q:out", "1.k:out (cached)", "1.v:out (cached)")
    assert attention.attrs["causal"] is False  # one row sees all of the context
    assert for_inference(found, setup) is found


def test_a_prompt_as_long_as_the_cache_is_read_under_its_triangle():
    found = for_inference(decoder(), serving(seq=CONTEXT))
    assert all(op.attrs["causal"] for op in found.ops if op.kind == "attention")


@pytest.mark.parametrize(
    ("pins", "share"),
    [
        # the batch, or heads of keys, over all four devices
        ({"*.attention": {"b": ("gpu",)}, "*(cache)": {"b": ("gpu",)}}, 4),
        ({"*.attention": {"g": ("gpu",)}, "*(cache)": {"h": ("gpu",)}}, 4),
        # 4 heads of keys on 2 of 2 x 2 devices: the other 2 share the query heads of each
        ({"*.attention": {"g": ("gpu0",), "r": ("gpu1",)}, "*(cache)": {"h": ("gpu0",)}}, 2),
        # positions: each device keeps its stretch, and attends to all of it
        ({"*.attention": {}, "*(cache)": {"s": ("gpu",)}}, 4),
        ({"*.attention": {}, "*(cache)": {}}, 1),
    ],
)
def test_the_cache_lies_as_its_ops_lie(pins, share):
    asked = request(serving(), 4, tuple(Pin(op=op, strategy=s) for op, s in pins.items()))
    plan = planned(asked)
    assert cache_bytes(plan) == ALL_BYTES // share
    assert plan.cost.memory_bytes.activations == 0


def test_a_cache_of_bytes_takes_half():
    halved = planned(request(serving(dtype="float8_e4m3"), 1))
    assert 2 * cache_bytes(halved) == cache_bytes(planned(request(serving(), 1))) == ALL_BYTES


def test_a_step_reads_the_cache_and_writes_its_own_rows():
    # memory-bound: everything but the cache is the same, so twice the context takes longer by what
    # is read of keys and values, at 0.75 of 10^12 bytes/s
    long, short = (planned(request(serving(context=c), 1)) for c in (2 * CONTEXT, CONTEXT))
    grown_ns = (long.cost.step_ns - short.cost.step_ns) * 0.75 * 1e12 / 1e9
    assert grown_ns == pytest.approx(ALL_BYTES, rel=1e-6)


@pytest.mark.parametrize("seq", [1, 16, CONTEXT])
@pytest.mark.parametrize("context_parallel", [False, True])
def test_plans_over_a_cache_are_right(seq, context_parallel):
    pins = (Pin(op="*(cache)", strategy={"s": ("gpu",)}),) if context_parallel else ()
    asked = request(serving(seq), 4, pins)
    plan = planned(asked)
    found = verify_documents(plan, asked.graph, asked.topology, asked.setup)
    assert found.outcome == "verified", found.detail
    own = problem_of(asked, microbatches=1)
    assert evaluate(own, plan) == plan.cost


@pytest.mark.parametrize("axes", [1, 2])
def test_a_prompt_over_a_cut_cache_is_right_on_meshes_of_any_number_of_axes(axes):
    pins = (Pin(op="*(cache)", strategy={"s": ("gpu",)}),)
    asked = request(serving(CONTEXT), 4, pins).model_copy(update={"budget": Budget(max_axes=axes)})
    plan = planned(asked)
    found = verify_documents(plan, asked.graph, asked.topology, asked.setup)
    assert found.outcome == "verified", found.detail


def test_a_cache_that_does_not_fit_is_named():
    asked = request(serving(context=1 << 20), 1)
    found = refused(asked.model_copy(update={"topology": topology(1, memory_bytes=1 << 30)}))
    assert found.constraint == "memory"


LATENT = Sizes(hidden=64, heads=4, head=16, rotary=8, latent=32, vocabulary=128, layers=2)


def latent_graph() -> Graph:
    with torch.device("meta"):
        recipe = latent_attention(LATENT, batch=BATCH, seq=32)
    return capture_module(recipe.module, recipe.inputs, symbols=recipe.symbols, name="latent")


def test_of_latent_attention_the_latents_and_rotary_keys_are_cached():
    graph, devices, setup = latent_graph(), topology(4), serving()
    plan = planned(
        toy_request(graph=graph, topology=topology(1), setup=setup, budget=Budget(max_axes=1))
    )
    # no head has a cache of its own: 32 + 8 numbers a position, not 4 * (24 + 16) of heads
    assert cache_bytes(plan) == BATCH * CONTEXT * (32 + 8) * 2 * LATENT.layers
    spread = planned(toy_request(graph=graph, topology=devices, setup=setup))
    found = verify_documents(spread, graph, devices, setup)
    assert found.outcome == "verified", found.detail


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ({"cache": {"context": 8}}, "Leave it out of training"),
        ({"cache": {"context": 8}, "phase": "inference", "microbatches": 2}, "2 microbatches"),
    ],
)
def test_a_setup_that_cannot_have_a_cache_is_refused(setup: Mapping[str, Any], said: str):
    with pytest.raises(SetupError, match=said):
        Setup.from_dict(dict(setup))


def test_a_sequence_longer_than_the_cache_is_refused():
    with pytest.raises(SetupError, match=r"room for a context of 64, op .* reads 65"):
        for_inference(decoder(), serving(seq=65))


def test_a_graph_without_causal_attention_is_refused():
    maker = GraphMaker(batch=4)
    maker.op("gelu", [maker.parameter("p", 4)], [4], "y")
    with pytest.raises(InvalidInput, match="no causal attention op"):
        for_inference(maker.graph("y:out"), serving())


def test_a_checkpoint_of_training_moves_to_fewer_devices_of_inference():
    trained = toy_request(graph=decoder(), topology=topology(4, 2), setup=Setup(microbatches=1))
    served = request(serving(), 2).model_copy(update={"topology": topology(2)})
    source, target = (
        PlanDocuments(planned(own), own.graph, own.topology, own.setup) for own in (trained, served)
    )
    document = transfer_plans(source, target)
    parameters = {t.name for t in decoder().tensors if t.role == "parameter"}
    moved = [name for line in document.tensors for name in line.tensors]
    assert sorted(moved) == sorted(parameters)
    assert {line.state for line in document.tensors} == {"value"}
    expected = sum(
        p.value_bytes for p in target.plan.stages[0].parameters if p.tensor in parameters
    )
    for rank in range(2):
        does = device_transfer(document, rank)
        pieces = [*does.receives, *does.keeps]
        assert sum(piece.bytes * len(piece.tensors) for piece in pieces) == expected


def test_llama_trained_on_64_devices_is_served_on_8():
    (example,) = [example for example in EXAMPLES if example.name == "llama3-8b"]
    graph, context, batch = example.load(), 2048, 64
    served = Setup(
        phase="inference",
        global_batch=batch,
        symbols={"seq": 1},
        cache=Cache(context=context),
    )
    trained = Setup(global_batch=batch, symbols={"seq": 4096}, microbatches=1)
    documents = []
    for name, setup in (("h100-8x8", trained), ("h100-1x8", served)):
        devices = preset(name)
        found = planned(
            one_stage_request(graph=graph, topology=devices, setup=setup, budget=Budget(max_axes=2))
        )
        documents.append(PlanDocuments(found, graph, devices, setup))
    # 32 layers, keys and values of 8 heads of 128 in 2 bytes, over 8 devices
    whole = batch * context * 8 * 128 * 2 * 2 * 32
    assert documents[1].plan.cost.memory_bytes.cache == whole // 8
    moved = transfer_plans(*documents)
    assert sum(len(line.tensors) for line in moved.tensors) == 291  # all there are, no cache
    assert moved.moved_bytes == moved.needed_bytes - moved.kept_bytes
    held = documents[1].plan.cost.memory_bytes.parameters
    assert moved.needed_bytes == 8 * held
