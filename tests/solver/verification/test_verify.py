"""Plans executed device by device equal the unsharded run, and damaged ones do not."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from meshwright.schema import Graph, Plan, PlanError, Setup, Stage, Step
from meshwright.schema.pin import Pin
from meshwright.schema.request_options import Solver
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import Problem
from meshwright_solver.verification.verify import random_sources, verify, verify_documents
from tests.one_stage import one_stage_request
from tests.solver.requests import mlp_request, toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology

EXAMPLES = Path(__file__).parents[3] / "examples" / "graphs"
KINDS = ("slice", "mask", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute")


def decoder_layer() -> Graph:
    """A layer with grouped attention from one fused q|k|v product, a gated MLP, and a loss."""
    make = GraphMaker(batch=16, seq=32)
    ids = make.input("ids", "batch", "seq", dtype="int64")
    labels = make.tensor("labels", ["batch", "seq"], "label", dtype="int64")
    table = make.parameter("table", 256, 64)
    x = make.op("embedding", [table, ids], ["batch", "seq", 64], name="embed")
    h = make.op("rms_norm", [x, make.parameter("norm1", 64)], ["batch", "seq", 64], name="norm1")
    fused = make.op(
        "linear", [h, make.parameter("wqkv", 128, 64)], ["batch", "seq", 128], name="qkv"
    )
    shapes = [["batch", "seq", 64], ["batch", "seq", 32], ["batch", "seq", 32]]
    heads = []
    for name, part, count in zip(
        "qkv", make.split(fused, shapes, 2, "parts"), (8, 4, 4), strict=True
    ):
        shape = ["batch", "seq", count, 8]
        four = make.op("reshape", [part], shape, name=f"{name}4")
        turned = ["batch", count, "seq", 8]
        order = {"dims": [0, 2, 1, 3]}
        heads.append(make.op("transpose", [four], turned, name=f"{name}t", attrs=order))
    shape = ["batch", 8, "seq", 8]
    mixed = make.op("attention", heads, shape, name="attention", attrs={"causal": True})
    order = {"dims": [0, 2, 1, 3]}
    back = make.op("transpose", [mixed], ["batch", "seq", 8, 8], name="back", attrs=order)
    flat = make.op("reshape", [back], ["batch", "seq", 64], name="flat")
    out = make.op("linear", [flat, make.parameter("wo", 64, 64)], ["batch", "seq", 64], name="o")
    x = make.op("add", [x, out], ["batch", "seq", 64], name="add1")
    h = make.op("layer_norm", [x, make.parameter("g", 64), make.parameter("b", 64)],
                ["batch", "seq", 64], name="norm2", attrs={"dims": 1})  # fmt: skip
    up = make.op(
        "linear", [h, make.parameter("w1", 256, 64), make.parameter("b1", 256)],
        ["batch", "seq", 256], name="up",
    )  # fmt: skip
    act = make.op("gelu", [up], ["batch", "seq", 256], name="gelu")
    down = make.op(
        "linear", [act, make.parameter("w2", 64, 256), make.parameter("b2", 64)],
        ["batch", "seq", 64], name="down",
    )  # fmt: skip
    x = make.op("add", [x, down], ["batch", "seq", 64], name="add2")
    logits = make.op("linear", [x, table], ["batch", "seq", 256], name="head")
    loss = make.op("cross_entropy", [logits, labels], [], name="loss")
    return make.graph(loss, loss=loss)


STYLES: dict[str, list[Pin]] = {
    "as found": [],
    "data parallel": [Pin(op="add*", strategy={"d0": ("node", "gpu")})],
    "tensor parallel": [
        Pin(op="qkv", strategy={"n0": ("gpu",), "b0": ("node",)}),
        Pin(op="o", strategy={"k0": ("gpu",), "b0": ("node",)}),
        Pin(op="up", strategy={"n": ("gpu",), "b0": ("node",)}),
        Pin(op="down", strategy={"k": ("gpu",), "b0": ("node",)}),
        Pin(op="head", strategy={"n": ("gpu",), "b0": ("node",)}),
    ],
    "sequence parallel": [
        Pin(op="up", strategy={"n": ("gpu",), "b0": ("node",)}),
        Pin(op="add1", strategy={"d1": ("gpu",), "d0": ("node",)}),
        Pin(op="norm2", strategy={"b1": ("gpu",), "b0": ("node",)}),
    ],
    "hidden size sharded": [
        Pin(op="norm1", strategy={"h0": ("gpu",), "b0": ("node",)}),
        Pin(op="norm2", strategy={"h0": ("node", "gpu")}),
    ],
    "both levels on one factor": [
        Pin(op="up", strategy={"n": ("node", "gpu")}),
        Pin(op="down", strategy={"k": ("node",), "b0": ("gpu",)}),
        Pin(op="embed", strategy={"v": ("node", "gpu")}),
    ],
    "vocabulary": [
        Pin(op="loss", strategy={"v": ("node", "gpu")}),
        Pin(op="embed", strategy={"h": ("gpu",), "b1": ("node",)}),
    ],
}


def planned(pins: list[Pin], *sizes: int) -> tuple[Problem, Plan]:
    graph, devices = decoder_layer(), topology(*sizes)
    answer = plan(toy_request(graph=graph, topology=devices, pins=tuple(pins)))
    assert answer.plan is not None
    return problem(graph, devices, microbatches=answer.plan.microbatches), answer.plan


@pytest.mark.parametrize("sizes", [(2, 4), (4, 2), (2, 2)])
@pytest.mark.parametrize("style", STYLES)
def test_a_plan_of_every_style_equals_the_unsharded_run(style: str, sizes: tuple[int, int]) -> None:
    certificate = verify(*planned(STYLES[style], *sizes))
    assert certificate.outcome == "verified", certificate.detail
    assert certificate.tensors > 20
    assert certificate.gradients > 20


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("name", "cluster", "setup"),
    [
        ("wide-deep", "a100-80g-2x8", Setup()),
        ("llama3-8b", "h100-3x4", Setup(global_batch=12)),
        ("mixtral-8x7b", "h100-2x8", Setup(global_batch=32)),
        ("vit-l16", "h100-2x8", Setup()),
        ("bert-large", "h100-1x8", Setup()),
    ],
)
def test_a_real_model_equals_the_unsharded_run(name: str, cluster: str, setup: Setup) -> None:
    graph = Graph.from_json(gzip.decompress((EXAMPLES / f"{name}.json.gz").read_bytes()))
    devices = preset(cluster)
    answer = plan(one_stage_request(graph=graph, topology=devices, setup=setup))
    assert answer.plan is not None
    certificate = verify_documents(answer.plan, graph, devices, setup)
    assert certificate.outcome == "verified", certificate.detail


def mutants(stage: Stage) -> Iterator[tuple[str, Stage]]:
    """Every step of the plan left out, over other axes, over fewer, and of every other kind."""
    for place, moved in enumerate(stage.redistributions):
        for half in ("forward", "backward", "per_step"):
            steps: tuple[Step, ...] = getattr(moved, half)
            for k, step in enumerate(steps):
                what = f"{moved.tensor} {moved.traffic} {half} {step.kind}"
                changed: list[tuple[str, tuple[Step, ...]]] = [("left out", ())]
                others = tuple(name for name in stage.mesh.names if name not in step.axes)
                if others:
                    changed.append(("other axes", (step.model_copy(update={"axes": others}),)))
                if len(step.axes) > 1:
                    fewer = step.model_copy(update={"axes": step.axes[1:]})
                    changed.append(("fewer axes", (fewer,)))
                changed += [
                    (f"as {kind}", (step.model_copy(update={"kind": kind}),))
                    for kind in KINDS
                    if kind != step.kind
                ]
                for how, new in changed:
                    all_steps = (*steps[:k], *new, *steps[k + 1 :])
                    damaged = moved.model_copy(update={half: all_steps})
                    rest = stage.redistributions
                    yield (
                        f"{what} {how}",
                        stage.model_copy(
                            update={"redistributions": (*rest[:place], damaged, *rest[place + 1 :])}
                        ),
                    )


@pytest.mark.rotating
@pytest.mark.parametrize("style", ["tensor parallel", "both levels on one factor", "vocabulary"])
def test_every_damaged_step_is_caught(style: str) -> None:
    problem_, found = planned(STYLES[style], 2, 2)
    count = 0
    for what, stage in mutants(found.stages[0]):
        certificate = verify(problem_, found.model_copy(update={"stages": (stage,)}))
        assert certificate.outcome == "failed", what
        count += 1
    assert count > 50


def test_damaged_steps_are_caught_beside_infinities() -> None:
    make = GraphMaker()
    x, hidden = make.input("x", 8, 16), make.input("hidden", 8, 32, dtype="bool")
    scores = make.op("linear", [x, make.parameter("w1", 32, 16)], [8, 32], "up")
    fill = {"value": "-inf"}
    scores = make.op("masked_fill", [scores, hidden], [8, 32], "masked", attrs=fill)
    weights = make.op("softmax", [scores], [8, 32], "weights", attrs={"dim": 1})
    out = make.op("linear", [weights, make.parameter("w2", 16, 32)], [8, 16], "down")
    loss = make.op("mean", [out], [], "loss", attrs={"dims": [0, 1]})
    graph, devices = make.graph(loss, loss=loss), topology(2, 2)
    pins = (Pin(op="up", strategy={"n": ("gpu",)}), Pin(op="down", strategy={"k": ("gpu",)}))
    answer = plan(toy_request(graph=graph, topology=devices, pins=pins))
    assert answer.plan is not None
    problem_ = problem(graph, devices, microbatches=answer.plan.microbatches)
    assert verify(problem_, answer.plan).outcome == "verified"
    damaged = list(mutants(answer.plan.stages[0]))
    assert damaged
    for what, stage in damaged:
        certificate = verify(problem_, answer.plan.model_copy(update={"stages": (stage,)}))
        assert certificate.outcome == "failed", what


@pytest.mark.parametrize("field", ["step_ns", "compute_ns"])
def test_a_plan_that_flatters_itself_is_refused(field: str) -> None:
    graph, devices = decoder_layer(), topology(2, 2)
    found = plan(toy_request(graph=graph, topology=devices)).plan
    assert found is not None
    cost = found.cost.model_copy(update={field: getattr(found.cost, field) / 2})
    with pytest.raises(PlanError, match="evaluate says"):
        verify_documents(found.model_copy(update={"cost": cost}), graph, devices, Setup())


def test_gradients_that_nothing_starts_are_never_a_pass() -> None:
    make = GraphMaker(batch=8)
    y = make.op("linear", [make.input("x", "batch", 8), make.parameter("w", 8, 8)], ["batch", 8])
    graph, devices = make.graph(y), topology(2, 2)
    found = plan(toy_request(graph=graph, topology=devices)).plan
    assert found is not None
    certificate = verify(problem(graph, devices), found)
    assert (certificate.outcome, "loss" in certificate.detail) == ("not verifiable", True)


def test_what_has_no_kernel_is_never_a_pass() -> None:
    make = GraphMaker(batch=8)
    x = make.input("x", "batch", 8)
    y = make.op("dreaming", [x, make.parameter("w", 8, 8)], ["batch", 8], name="dream")
    graph, devices = make.graph(y), topology(2, 2)
    found = plan(toy_request(graph=graph, topology=devices)).plan
    assert found is not None
    certificate = verify(problem(graph, devices), found)
    assert (certificate.outcome, "dreaming" in certificate.detail) == ("not verifiable", True)


def test_a_weight_whose_gradient_is_whole_on_inner_axes_is_reduced_into_its_shards() -> None:
    # on gpu the product is repeated: its gradient is sliced there before nodes reduce it
    request = mlp_request(16, topology(2, 4), rows=32, width=256)
    pins = tuple(Pin(op=name, strategy={"b0": ("node",)}) for name in ("up", "down"))
    found = plan(request.model_copy(update={"pins": pins})).plan
    assert found is not None
    paths = [
        [step.kind for step in (*moved.backward, *moved.per_step)]
        for moved in found.stages[0].redistributions
        if moved.tensor in ("w up", "w down") and moved.traffic == "gradient"
    ]
    assert any(kinds[:2] == ["slice", "reduce_scatter"] for kinds in paths), paths
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified", certificate.detail


def mixture() -> Graph:
    """Eight experts of which every token asks two: each has room for a quarter of the tokens."""
    make = GraphMaker(batch=8, seq=32)
    rows, room = ["batch", "seq", 16], [8, "batch", "seq//4", 16]
    x = make.op("gelu", [make.input("x", *rows)], rows, name="tokens")
    gate = make.op("linear", [x, make.parameter("wg", 8, 16)], ["batch", "seq", 8], name="gate")
    best = make.tensor("best", ["batch", "seq", 2])
    which = make.tensor("which", ["batch", "seq", 2], dtype="int64")
    make.ops.append(
        {"name": "choose", "kind": "topk", "inputs": [gate], "outputs": [best, which],
         "attrs": {"k": 2, "dim": 2}}
    )  # fmt: skip
    sent = make.op("moe_dispatch", [x, which], room, name="send", attrs={"capacity_factor": 1.0})
    made = make.op("expert_matmul", [sent, make.parameter("we", 8, 16, 16)], room, name="experts",
                   attrs={"weight_layout": "efh"})  # fmt: skip
    back = make.op("moe_combine", [made, which, best], rows, name="back",
                   attrs={"capacity_factor": 1.0})  # fmt: skip
    labels = make.tensor("labels", ["batch", "seq"], "label", dtype="int64")
    loss = make.op("cross_entropy", [back, labels], [], name="loss")
    return make.graph(loss, loss=loss)


@pytest.mark.parametrize("solver", ["semi_auto", "dynamic_programming"])
def test_room_of_experts_stays_divisible_where_only_the_batch_is_cut(solver: Solver) -> None:
    request = toy_request(graph=mixture(), topology=topology(8), solver=solver)
    found = plan(request).plan
    assert found is not None
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified", certificate.detail


def test_inference_is_compared_without_gradients_though_there_is_a_loss() -> None:
    graph, devices, setup = decoder_layer(), topology(2, 4), Setup(phase="inference")
    found = plan(toy_request(graph=graph, topology=devices, setup=setup)).plan
    assert found is not None
    certificate = verify_documents(found, graph, devices, setup)
    assert certificate.outcome == "verified", certificate.detail
    assert (certificate.tensors > 20, certificate.gradients) == (True, 0)


def masked(fill: str) -> Graph:
    """Scores with hidden places, from which every row takes its two best."""
    make = GraphMaker(batch=8)
    rows = ["batch", 16]
    x = make.op("linear", [make.input("x", *rows), make.parameter("w", 16, 16)], rows, name="score")
    hidden = make.tensor("hidden", rows, "input", dtype="bool")
    filled = make.op("masked_fill", [x, hidden], rows, name="filled", attrs={"value": fill})
    best, which = make.tensor("best", ["batch", 2]), make.tensor("which", ["batch", 2])
    make.ops.append(
        {"name": "choose", "kind": "topk", "inputs": [filled], "outputs": [best, which],
         "attrs": {"k": 2, "dim": 1}}
    )  # fmt: skip
    labels = make.tensor("labels", ["batch"], "label", dtype="int64")
    loss = make.op("cross_entropy", [best, labels], [], name="loss")
    return make.graph(loss, loss=loss)


@pytest.mark.parametrize("fill", ["-inf", "-1e30"])
def test_infinities_of_a_mask_equal_each_other(fill: str) -> None:
    request = toy_request(graph=masked(fill), topology=topology(2, 2))
    found = plan(request).plan
    assert found is not None
    certificate = verify_documents(found, request.graph, request.topology, request.setup)
    assert certificate.outcome == "verified", certificate.detail


def scaled_rows(kind: str) -> Graph:
    """A product, scaled by a single number that is an integer, and its square root or sum."""
    make = GraphMaker(batch=16)
    x = make.input("x", "batch", 32)
    h = make.op("linear", [x, make.parameter("w", 32, 32)], ["batch", 32], name="product")
    factor = make.tensor("factor", [], "constant", dtype="int64")
    factor = make.op("cast", [factor], [], name="cast", attrs={"dtype": "float32"})
    h = make.op("mul", [h, factor], ["batch", 32], name="scaled")
    if kind == "root of zero":
        h = make.op("sub", [h, h], ["batch", 32], name="zero")
        h = make.op("sqrt", [h], ["batch", 32], name="root")
    loss = make.op("mean", [h], [], name="loss", attrs={"dims": [0, 1]})
    return make.graph(loss, loss=loss)


def test_a_factor_that_is_an_integer_is_not_taken_to_be_zero() -> None:
    whole = problem(scaled_rows("sum"), topology(2, 2), Setup(microbatches=1))
    assert all(random_sources(whole, seed)["factor"] == 1 for seed in range(20))


def test_a_graph_without_gradients_on_random_data_is_not_verifiable() -> None:
    request = toy_request(graph=scaled_rows("root of zero"), topology=topology(2, 2))
    answer = plan(request)
    assert answer.plan is not None
    found = verify_documents(answer.plan, request.graph, request.topology, request.setup)
    assert found.outcome == "not verifiable"
    assert found.detail.startswith("on random data the gradient of ")
