"""Sequences in zigzag order: even work, priced only where a plan says it, executed as it says."""

from __future__ import annotations

from math import lcm

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.schema import (
    Cache,
    Degrees,
    Graph,
    LoadedDim,
    Pin,
    Pipeline,
    Plan,
    PlanError,
    Recompute,
    Request,
    SequenceOrder,
    Setup,
    SetupError,
    ShardingRule,
)
from meshwright.schema.sequence_order import zigzag
from meshwright_costmodel.calibrations import datasheet_calibration
from meshwright_costmodel.operators import op_ns
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.planning.planner import check, plan
from meshwright_solver.problem import sequence_classes as rows
from meshwright_solver.problem.op_info import OpInfo, OpPort
from meshwright_solver.simulation.step import step_of
from meshwright_solver.strategies.op_model import in_even_parts
from meshwright_solver.verification.execution.sequence_order import LoadedOrder
from meshwright_solver.verification.execution.shards import Array
from meshwright_solver.verification.verify import verify, verify_documents
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology
from tests.solver.verification.execution.test_followers_executed import RINGS, attending
from tests.solver.verification.test_verify import decoder_layer

ZIGZAG = Setup(microbatches=1, sequence_order="zigzag")
CUT = Pin(op="it", strategy={"s": ("node", "gpu")})


def work_of_parts(size: int, chunks: int, parts: int) -> list[int]:
    """Keys that the rows of each part see, counted one by one; parts of what is loaded."""
    order = np.array(zigzag(size, chunks))
    seen = np.tri(size, dtype=np.int64)[order]
    return seen.reshape(parts, -1).sum(axis=1).tolist()


def planned(
    graph: Graph, pins: tuple[Pin, ...], sizes=(2, 2), setup: Setup = ZIGZAG, flops_per_s=1e13
) -> Plan:
    devices = topology(*sizes, flops_per_s=flops_per_s)
    answer = plan(toy_request(graph=graph, topology=devices, setup=setup, pins=pins))
    assert answer.plan is not None
    return answer.plan


def compute_ns(found: Plan, name: str = "it") -> float:
    (own,) = (op for op in found.stages[0].ops if op.op == name)
    return own.compute_ns


def test_eight_rows_by_hand() -> None:
    # rows 0 .. 7 see 1 .. 8 keys: 36, so 9 for each of four; contiguous the last part has 7 + 8
    assert zigzag(8, 8) == (0, 7, 1, 6, 2, 5, 3, 4)
    assert work_of_parts(8, 8, 4) == [9, 9, 9, 9]
    # Megatron-Core and Llama 3 for two ranks: chunks 0 and 3, 1 and 2
    assert zigzag(8, 4) == (0, 1, 6, 7, 2, 3, 4, 5)
    assert work_of_parts(8, 4, 2) == [18, 18]


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 4))
def test_parts_are_even_just_where_it_is_said(own: int, others: int, length: int) -> None:
    """For every number of parts that divides that of the order; and contiguous parts never are."""
    parts = lcm(own, others)
    size = 2 * parts * length
    assert in_even_parts(size, own)
    assert len(set(work_of_parts(size, 2 * parts, own))) == 1
    if own > 1:
        contiguous = np.tri(size, dtype=np.int64).reshape(own, -1).sum(axis=1)
        assert contiguous.max() > contiguous.mean()


def test_a_row_and_its_mirror_are_needed() -> None:
    # 12 rows over 12 devices: one row each, and nothing makes these even
    assert not in_even_parts(12, 12)
    assert in_even_parts(12, 6)


@pytest.mark.parametrize(("rows", "share"), [(16, 1.0), (12, 2 - 1 / 4)])
def test_the_price_by_hand(rows: int, share: float) -> None:
    """Four parts: 8 chunks divide 16 rows, not 12. The arithmetic of 12 waits for the last part."""
    slow = topology(2, 2, flops_per_s=1e6)
    graph = attending(rows, rows)
    answer = plan(
        toy_request(
            graph=graph,
            topology=slow,
            setup=ZIGZAG,
            pins=(CUT,),
            calibration=datasheet_calibration(),
        )
    )
    assert answer.plan is not None
    # 2 b g r s t (d + e) / 2 forward, 2.5 times as much backward, on a quarter of the rows
    flops = 2 * 6 * 4 * rows * rows * 8 / 2
    given_ = {"dtype": "float32", "device": slow.device, "calibration": datasheet_calibration()}
    forward, backward = (
        op_ns("attention", np.array([times * flops / 4 * share]), bytes_moved=0.0, **given_)
        for times in (1, 2.5)
    )
    assert compute_ns(answer.plan) == pytest.approx(float(forward[0] + backward[0]), rel=1e-9)
    assert [own.chunks for own in answer.plan.order] == ([8] if share == 1 else [])


def test_a_plan_says_what_is_loaded_in_order_and_what_goes_by_position() -> None:
    found = planned(decoder_layer(), (Pin(op="attention", strategy={"s": ("node", "gpu")}),))
    assert found.order == (
        SequenceOrder(
            size=32,
            chunks=8,
            loaded=(LoadedDim(tensor="ids", dim=1), LoadedDim(tensor="labels", dim=1)),
            by_position=("attention",),
        ),
    )


def test_contiguous_is_the_default_and_says_nothing() -> None:
    plain = Setup(microbatches=1)
    assert Setup().sequence_order == "contiguous"
    assert "sequence_order" not in Setup().to_dict()
    found = planned(attending(16, 16), (CUT,), setup=plain, flops_per_s=1e6)
    assert found.order == ()
    even = planned(attending(16, 16), (CUT,), flops_per_s=1e6)
    # the last of four parts has 1.75 times the mean; what moves is the same
    assert compute_ns(found) / compute_ns(even) == pytest.approx(1.75, rel=1e-3)
    assert even.cost.communication_ns == found.cost.communication_ns


CUTS = [{"s": ("node", "gpu")}, {"s": ("node",), "g": ("gpu",)}, {"s": ("gpu",), "b": ("node",)}]


ON_FOUR = [(strategy, (2, 2)) for strategy in (*CUTS, *RINGS)]
ON_MORE = [(CUTS[0], (4, 2)), (CUTS[0], (2, 3)), (RINGS[1], (4, 2)), (RINGS[2], (2, 3))]


@pytest.mark.rotating
@pytest.mark.parametrize(("strategy", "sizes"), [*ON_FOUR, *ON_MORE])
def test_every_cut_of_the_rows_equals_the_unsharded_run(strategy: dict, sizes) -> None:
    graph = attending(48, 48)
    found = planned(graph, (Pin(op="it", strategy=strategy),), sizes)
    assert found.order
    certificate = verify(problem(graph, topology(*sizes), ZIGZAG), found)
    assert certificate.outcome == "verified", certificate.detail
    assert certificate.gradients > 0


PINS = st.lists(
    st.sampled_from(
        [
            Pin(op="attention", strategy={"s": ("node", "gpu")}),
            Pin(op="attention", strategy={"s": ("node",), "g": ("gpu",)}),
            Pin(op="attention", strategy={"s": ("gpu",), "t": ("gpu",)}),
            Pin(op="up", strategy={"n": ("gpu",), "b0": ("node",)}),
            Pin(op="add1", strategy={"d1": ("gpu",), "d0": ("node",)}),
            Pin(op="norm2", strategy={"h0": ("node", "gpu")}),
            Pin(op="loss", strategy={"b1": ("node", "gpu")}),
            Pin(op="head", strategy={"b1": ("gpu",), "n": ("node",)}),
        ]
    ),
    max_size=3,
    unique_by=lambda pin: pin.op,
)


@settings(max_examples=25, deadline=None)
@given(PINS, st.sampled_from([(2, 2), (4, 2), (2, 4)]), st.integers(0, 99))
def test_whatever_else_a_plan_does_it_equals_the_unsharded_run(pins, sizes, seed) -> None:
    graph = decoder_layer()
    found = planned(graph, tuple(pins), sizes)
    given_ = problem(graph, topology(*sizes), ZIGZAG)
    assert evaluate(given_, found) == found.cost
    certificate = verify(given_, found, seed=seed)
    assert certificate.outcome == "verified", certificate.detail


def staged() -> Request:
    """Two decoder layers on two ranks, each with its sequence over two devices."""
    make = GraphMaker(batch=4, seq=16)
    ids = make.input("ids", "batch", "seq", dtype="int64")
    labels = make.tensor("labels", ["batch", "seq"], "label", dtype="int64")
    places = make.op("arange", [], ["seq"], "places")
    wide = ["batch", "seq", 16]
    x = make.op("embedding", [make.parameter("words", 64, 16), ids], wide, "embed")
    rows = make.op("embedding", [make.parameter("rows", 32, 16), places], ["seq", 16], "place")
    x = make.op("add", [x, rows], wide, "sum")
    for k in (1, 2):
        heads = []
        for name in "qkv":
            made = make.op("linear", [x, make.parameter(f"w{name}{k}", 16, 16)], wide, f"{name}{k}")
            four = make.op("reshape", [made], ["batch", "seq", 4, 4], f"{name}{k} heads")
            attrs = {"dims": [0, 2, 1, 3]}
            heads.append(
                make.op("transpose", [four], ["batch", 4, "seq", 4], f"{name}{k}t", attrs=attrs)
            )
        mixed = make.op(
            "attention", heads, ["batch", 4, "seq", 4], f"attention{k}", attrs={"causal": True}
        )
        back = make.op("transpose", [mixed], ["batch", "seq", 4, 4], f"back{k}", attrs=attrs)
        flat = make.op("reshape", [back], wide, f"flat{k}")
        out = make.op("linear", [flat, make.parameter(f"wo{k}", 16, 16)], wide, f"o{k}")
        x = make.op("add", [x, out], wide, f"add{k}")
    logits = make.op("linear", [x, make.parameter("head", 64, 16)], ["batch", "seq", 64], "logits")
    ahead = make.op(
        "pad", [labels], ["batch", "seq+1"], "pad",
        attrs={"pads": [[0, 0], [0, 1]], "value": -100},
    )  # fmt: skip
    shifted = make.op(
        "slice", [ahead], ["batch", "seq"], "next",
        attrs={"dim": 1, "start": 1, "end": "seq+1", "step": 1},
    )  # fmt: skip
    loss = make.op("cross_entropy", [logits, shifted], [], "loss")
    return toy_request(
        graph=make.graph(loss, loss=loss),
        topology=topology(2, 2),
        setup=Setup(microbatches=2, sequence_order="zigzag"),
        degrees=Degrees(cp=2),
        pipeline=Pipeline(ranks=2),
    )


def test_stages_of_a_pipeline_are_loaded_alike() -> None:
    """Token numbers in the first stage, labels that are shifted first in the last; what comes
    between arrives in the order."""
    request = staged()
    found = plan(request).plan
    assert found is not None
    (own,) = found.order
    assert (own.size, own.chunks) == (16, 4)
    assert {(dim.tensor, dim.dim) for dim in own.loaded} == {("ids", 1), ("places:out", 0)}
    assert own.by_position == ("attention1", "attention2", "next")
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified", certificate.detail


def attending_experts() -> Graph:
    """Causal attention, and experts of which every token asks two of eight."""
    make = GraphMaker(batch=8, seq=64)
    rows, room = ["batch", "seq", 16], [8, "batch", "seq//4", 16]
    x = make.op(
        "embedding",
        [make.parameter("words", 64, 16), make.input("ids", "batch", "seq", dtype="int64")],
        rows, "tokens",
    )  # fmt: skip
    heads = []
    turn = {"dims": [0, 2, 1, 3]}
    for name in "qkv":
        made = make.op("linear", [x, make.parameter(f"w{name}", 16, 16)], rows, name)
        four = make.op("reshape", [made], ["batch", "seq", 4, 4], f"{name} heads")
        heads.append(make.op("transpose", [four], ["batch", 4, "seq", 4], f"{name}t", attrs=turn))
    own = make.op("attention", heads, ["batch", 4, "seq", 4], "attention", attrs={"causal": True})
    own = make.op("transpose", [own], ["batch", "seq", 4, 4], "back", attrs=turn)
    x = make.op("add", [x, make.op("reshape", [own], rows, "flat")], rows, "sum")
    gate = make.op("linear", [x, make.parameter("wg", 8, 16)], ["batch", "seq", 8], "gate")
    best = make.tensor("best", ["batch", "seq", 2])
    which = make.tensor("which", ["batch", "seq", 2], dtype="int64")
    make.ops.append(
        {"name": "choose", "kind": "topk", "inputs": [gate], "outputs": [best, which],
         "attrs": {"k": 2, "dim": 2}}
    )  # fmt: skip
    sent = make.op("moe_dispatch", [x, which], room, "send", attrs={"capacity_factor": 1.0})
    made = make.op("expert_matmul", [sent, make.parameter("we", 8, 16, 16)], room, "experts",
                   attrs={"weight_layout": "efh"})  # fmt: skip
    x = make.op("moe_combine", [made, which, best], rows, "return",
                attrs={"capacity_factor": 1.0})  # fmt: skip
    labels = make.tensor("labels", ["batch", "seq"], "label", dtype="int64")
    loss = make.op("cross_entropy", [x, labels], [], "loss")
    return make.graph(loss, loss=loss)


@pytest.mark.parametrize(
    "experts", [{"e": ("gpu",), "c": ("node",)}, {"c": ("node", "gpu")}, {"e": ("node", "gpu")}]
)
def test_experts_have_room_in_the_order_of_their_tokens(experts: dict) -> None:
    graph = attending_experts()
    pins = (
        Pin(op="attention", strategy={"s": ("node", "gpu")}),
        Pin(op="send", strategy={"s": ("node", "gpu")}),
        Pin(op="experts", strategy=experts),
    )
    found = planned(graph, pins)
    (own,) = found.order
    assert own.size == 64
    assert own.by_position == ("attention",)
    certificate = verify(problem(graph, topology(2, 2), ZIGZAG), found)
    assert certificate.outcome == "verified", certificate.detail


def test_a_stage_that_is_cut_unevenly_is_contiguous() -> None:
    """32 rows over six devices have a span of 36; what is priced and executed has short chunks."""
    setup = ZIGZAG.model_copy(update={"uneven": "chunk"})
    graph, pin = decoder_layer(), Pin(op="attention", strategy={"s": ("node", "gpu")})
    found = planned(graph, (pin,), (3, 2), setup)
    assert found.stages[0].uneven == "chunk"
    assert found.order == ()
    given_ = problem(graph, topology(3, 2), setup)
    assert evaluate(given_, found) == found.cost
    assert verify(given_, found).outcome == "verified"


def test_inference_loads_in_order_and_a_cache_does_not() -> None:
    setup = Setup(phase="inference", sequence_order="zigzag")
    graph, pin = decoder_layer(), Pin(op="attention", strategy={"s": ("node", "gpu")})
    found = planned(graph, (pin,), (2, 2), setup)
    assert [own.chunks for own in found.order] == [8]
    certificate = verify(problem(graph, topology(2, 2), setup), found)
    assert certificate.outcome == "verified", certificate.detail
    cached = setup.model_copy(update={"cache": Cache(context=64)})
    with pytest.raises(SetupError, match="cannot be loaded in another order"):
        plan(toy_request(graph=graph, topology=topology(2, 2), setup=cached))


@pytest.mark.parametrize("policy", ["selective", "full"])
def test_what_is_recomputed_is_in_order_too(policy: str) -> None:
    graph, pin = decoder_layer(), Pin(op="attention", strategy={"s": ("node", "gpu")})
    request = toy_request(
        graph=graph, topology=topology(2, 2), setup=ZIGZAG, pins=(pin,),
        recompute=Recompute(policy=policy),
    )  # fmt: skip
    found = plan(request).plan
    assert found is not None
    assert found.order
    certificate = verify(problem(graph, topology(2, 2), ZIGZAG), found)
    assert certificate.outcome == "verified", certificate.detail


def test_a_plan_in_order_is_simulated_and_one_that_hides_it_is_not() -> None:
    for request in (
        staged(),
        toy_request(graph=attending(48, 48), topology=topology(2, 2), setup=ZIGZAG, pins=(CUT,)),
    ):
        found = plan(request).plan
        assert found is not None
        given_ = request.graph, request.topology, request.setup
        assert step_of(found, *given_).ns == pytest.approx(found.cost.step_ns, rel=0.03)
        with pytest.raises(PlanError, match="its sharding requires 1"):
            step_of(found.model_copy(update={"order": ()}), *given_)


# plans that claim it wrongly


def damaged(found: Plan, **update: object) -> Plan:
    (own,) = found.order
    return found.model_copy(update={"order": (own.model_copy(update=update),)})


def test_a_plan_that_claims_another_order_is_caught() -> None:
    graph = attending(48, 48)
    found = planned(graph, (CUT,))
    given_ = problem(graph, topology(2, 2), ZIGZAG)
    (own,) = found.order
    assert own.chunks == 8
    for wrong, match in (
        (found.model_copy(update={"order": ()}), "0 sequences, but its sharding requires 1"),
        (damaged(found, chunks=4), "4 chunks make .* uneven; use a multiple of 8"),
        (damaged(found, by_position=()), "by position it"),
        (damaged(found, loaded=(LoadedDim(tensor="kin", dim=2),)), "does not match"),
        (damaged(found, size=96), "does not match"),
    ):
        with pytest.raises(PlanError, match=match):
            evaluate(given_, wrong)
        with pytest.raises(PlanError, match=match):
            verify(given_, wrong)
    # twice as many are as even
    assert evaluate(given_, damaged(found, chunks=16)) == found.cost


def test_an_order_that_nobody_asked_for_is_caught() -> None:
    graph, plain = attending(48, 48), Setup(microbatches=1)
    found = planned(graph, (CUT,), setup=plain)
    order = planned(graph, (CUT,)).order
    with pytest.raises(PlanError, match="its setup requests contiguous"):
        evaluate(problem(graph, topology(2, 2), plain), found.model_copy(update={"order": order}))


def _as_it_is(order: LoadedOrder, op: OpInfo, port: OpPort, whole: Array) -> Array:
    del order, op, port
    return whole


def test_execution_sees_masks_that_go_by_place_in_the_loaded_order(monkeypatch) -> None:
    """Planted: devices that mask by where a row lies on them and not by its true position."""
    graph = decoder_layer()
    found = planned(graph, (Pin(op="attention", strategy={"s": ("node", "gpu")}),))
    monkeypatch.setattr(LoadedOrder, "by_place", _as_it_is)
    monkeypatch.setattr(LoadedOrder, "as_loaded", _as_it_is)
    certificate = verify(problem(graph, topology(2, 2), ZIGZAG), found)
    assert certificate.outcome == "failed"
    assert "differs from the unsharded run" in certificate.detail


def test_execution_sees_what_is_not_loaded_in_order(monkeypatch) -> None:
    """Planted: sources by true positions, of which devices take contiguous parts."""
    graph = attending(48, 48)
    found = planned(graph, (CUT,))
    monkeypatch.setattr(LoadedOrder, "read", _as_it_is)
    monkeypatch.setattr(LoadedOrder, "as_loaded", _as_it_is)
    assert verify(problem(graph, topology(2, 2), ZIGZAG), found).outcome == "failed"


def walking(kind: str, **attrs: object) -> Graph:
    """Attention of whose queries the rows are walked along before."""
    make = GraphMaker()
    heads = []
    for name in "qkv":
        shape = [6, 4, 48, 4]
        x = make.input(f"{name}in", *shape)
        x = make.op("linear", [x, make.parameter(f"w{name}", 4, 4)], shape, name)
        heads.append(make.op(kind, [x], shape, "walk", attrs=attrs) if name == "q" else x)
    mixed = make.op("attention", heads, [6, 4, 48, 4], "it", attrs={"causal": True})
    loss = make.op("mean", [mixed], [], "loss", attrs={"dims": [0, 1, 2, 3]})
    return make.graph(loss, loss=loss)


WALKS = [("cumsum", {"dim": 2}), ("flip", {"dims": [2]}), ("roll", {"shifts": [1], "dims": [2]}),
         ("tril", {}), ("sort", {"dim": 2})]  # fmt: skip


@pytest.mark.parametrize(("kind", "attrs"), WALKS)
def test_what_walks_along_the_rows_is_refused_by_name(kind: str, attrs: dict) -> None:
    request = toy_request(graph=walking(kind, **attrs), topology=topology(2, 2), setup=ZIGZAG)
    match = rf"op 'walk' \({kind}\) needs .* in the order of its positions.*Use sequence_order"
    with pytest.raises(SetupError, match=match):
        plan(request)
    with pytest.raises(SetupError, match=match):
        check(request)
    plain = request.model_copy(update={"setup": Setup(microbatches=1)})
    check(plain)


def test_walks_along_other_dims_do_not_matter() -> None:
    graph = walking("cumsum", dim=1)
    found = planned(graph, (CUT,))
    assert found.order
    certificate = verify(problem(graph, topology(2, 2), ZIGZAG), found)
    assert certificate.outcome == "verified", certificate.detail


@pytest.mark.parametrize(("kind", "attrs"), [WALKS[0], WALKS[3]])
def test_execution_sees_a_walk_that_is_taken_for_indifferent(monkeypatch, kind, attrs) -> None:
    """Planted: rules that say that any order will do for these kinds."""
    said = rows.in_any_order

    def wrong(name, rule, attrs):
        return frozenset(rule.factors) if name == kind else said(name, rule, attrs)

    monkeypatch.setattr(rows, "in_any_order", wrong)
    graph = walking(kind, **attrs)
    found = planned(graph, (CUT,))
    assert found.order
    assert verify(problem(graph, topology(2, 2), ZIGZAG), found).outcome == "failed"


def test_rules_of_the_users_own_are_not_taken_for_indifferent() -> None:
    graph = attending(16, 16)
    own = {"notation": "b g s k, n k -> b g s n"}
    ops = tuple(
        op.model_copy(update={"rule": ShardingRule(**own)}) if op.name == "q" else op
        for op in graph.ops
    )
    request = toy_request(
        graph=graph.model_copy(update={"ops": ops}), topology=topology(2, 2), setup=ZIGZAG
    )
    with pytest.raises(SetupError, match=r"op 'q' \(linear\) needs"):
        plan(request)


def test_parameters_keep_the_order_of_the_checkpoint() -> None:
    make = GraphMaker()
    shape = [6, 4, 16, 4]
    heads = []
    for name in "qkv":
        x = make.input(f"{name}in", *shape)
        x = make.op("linear", [x, make.parameter(f"w{name}", 4, 4)], shape, name)
        heads.append(make.op("add", [x, make.parameter("places", 16, 4)], shape, "placed")
                     if name == "q" else x)  # fmt: skip
    mixed = make.op("attention", heads, shape, "it", attrs={"causal": True})
    loss = make.op("mean", [mixed], [], "loss", attrs={"dims": [0, 1, 2, 3]})
    request = toy_request(graph=make.graph(loss, loss=loss), topology=topology(2, 2), setup=ZIGZAG)
    with pytest.raises(SetupError, match="dim 0 of parameter 'places'"):
        plan(request)


@pytest.mark.parametrize(
    ("attrs", "masks", "message"),
    [
        ({"causal": True}, 1, r"op 'other' has a mask besides its causal mask"),
        ({"causal": False, "window": 3}, 0, r"op 'other' \(attention\) needs"),
    ],
)
def test_attention_by_position_in_another_way_is_refused_by_name(attrs, masks, message) -> None:
    make = GraphMaker()
    shape = [6, 4, 16, 4]
    heads = [
        make.op("linear", [make.input(f"{name}in", *shape), make.parameter(f"w{name}", 4, 4)],
                shape, name)
        for name in "qkv"
    ]  # fmt: skip
    causal = make.op("attention", heads, shape, "it", attrs={"causal": True})
    bias = [make.input("bias", 16, 16)] * masks
    other = make.op("attention", [causal, *heads[1:], *bias], shape, "other", attrs=attrs)
    loss = make.op("mean", [other], [], "loss", attrs={"dims": [0, 1, 2, 3]})
    request = toy_request(graph=make.graph(loss, loss=loss), topology=topology(2, 2), setup=ZIGZAG)
    with pytest.raises(SetupError, match=message):
        plan(request)


def test_a_graph_without_causal_masks_has_nothing_to_order() -> None:
    request = toy_request(graph=attending(mask=True), topology=topology(2, 2), setup=ZIGZAG)
    with pytest.raises(SetupError, match="no op of the graph has a causal mask"):
        plan(request)


def test_an_order_has_an_even_number_of_equal_chunks() -> None:
    for size, chunks in ((12, 8), (15, 5)):
        with pytest.raises(PlanError, match="cannot be loaded in"):
            SequenceOrder(size=size, chunks=chunks)
    assert SequenceOrder(size=4, chunks=4).positions == (0, 3, 1, 2)
