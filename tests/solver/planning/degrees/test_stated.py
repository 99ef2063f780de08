"""Stated strategies: what their plans hold, send and cost, against closed forms and the search."""

from __future__ import annotations

from math import prod

import pytest

from meshwright.schema import (
    Degrees,
    InvalidInput,
    Pipeline,
    Plan,
    Request,
    RequestError,
    Setup,
    Topology,
)
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.planning.planner import check, plan
from meshwright_solver.verification.verify import verify_documents
from tests.solver.layered import layered
from tests.solver.requests import (
    ONE_BATCH,
    mlp_request,
    planned,
    problem_of,
    toy_request,
    transformer_mlp,
)
from tests.solver.small_graphs import GraphMaker, topology
from tests.solver.uneven_graphs import experts, gpt

GIB = 2**30
ROWS, WIDTH, WORDS = 64, 256, 1024


def stated(
    devices: Topology, batch: int = 64, setup: Setup = ONE_BATCH, **degrees: object
) -> Request:
    """A transformer's MLP, embedding and head, with the degrees."""
    request = mlp_request(batch, devices, rows=ROWS, width=WIDTH)
    own = Degrees.model_validate(degrees)
    return request.model_copy(update={"degrees": own, "setup": setup})


def strategies(found: Plan) -> dict[str, dict[str, tuple[str, ...]]]:
    return {op.op: op.strategy for stage in found.stages for op in stage.ops}


def collectives(found: Plan, traffic: str) -> dict[tuple[str, str], list[int]]:
    """By direction and kind: the payloads."""
    out: dict[tuple[str, str], list[int]] = {}
    for stage in found.stages:
        for own in stage.redistributions:
            if own.traffic == traffic:
                for direction in ("forward", "backward", "per_step"):
                    for step in getattr(own, direction):
                        if step.kind not in ("slice", "mask"):
                            out.setdefault((direction, step.kind), []).append(step.payload_bytes)
    return out


# --- what it holds --------------------------------------------------------------------------------


@pytest.mark.parametrize(("zero", "gigabytes"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
@pytest.mark.parametrize("microbatches", [1, 2])
def test_memory_of_a_stage_is_that_of_the_table_in_the_zero_paper(
    zero: int, gigabytes: float, microbatches: int
) -> None:
    # Rajbhandari et al. 2020, figure 1: 7.5 billion parameters over 64 devices, two bytes each for
    # parameter and gradient, K = 12 for Adam with a master copy
    maker = GraphMaker("bfloat16", batch=128)
    wide, narrow = 200_000, 12_500
    x = maker.input("x", "batch", narrow)
    for k, (rows, columns) in enumerate(((wide, narrow), (narrow, wide), (wide, narrow))):
        x = maker.op("linear", [x, maker.parameter(f"w{k}", rows, columns)], ["batch", rows])
    graph = maker.graph(maker.op("sum", [x], [], "loss", attrs={"dims": [0, 1]}), loss="loss:out")
    assert sum(prod(map(int, t.shape)) for t in graph.tensors if t.role == "parameter") == 7.5e9
    request = toy_request(
        graph=graph,
        topology=topology(8, 8, memory_bytes=400 * 10**9),
        setup=Setup(gradient_dtype="bfloat16", microbatches=microbatches),
        degrees=Degrees(dp=64, zero=zero),
    )
    memory = planned(request).cost.memory_bytes
    held = memory.parameters + memory.gradients + memory.optimizer
    assert round(held / 1e9, 1) == gigabytes


def test_what_does_not_fit_has_a_plan_that_says_by_how_much() -> None:
    small = topology(2, 4, memory_bytes=20 << 20)
    request = stated(small, dp=8)
    found = planned(request)
    memory = found.cost.memory_bytes
    assert memory.total > memory.capacity == 20 << 20
    assert any("does not fit" in note and "optimizer" in note for note in found.notes)
    assert found.topology == request.topology.id
    plenty = planned(stated(topology(2, 4), dp=8))
    assert plenty.cost.memory_bytes.optimizer == memory.optimizer
    assert not any("does not fit" in note for note in plenty.notes)


# --- what it sends --------------------------------------------------------------------------------


def test_data_parallelism_reduces_every_gradient_once() -> None:
    found = planned(stated(topology(2, 4), dp=8))
    parameters = 2 * WORDS * WIDTH + WIDTH + 2 * 4 * WIDTH * WIDTH
    sent = collectives(found, "gradient")
    assert set(sent) == {("per_step", "all_reduce")}
    assert sum(sent["per_step", "all_reduce"]) == 4 * parameters  # gradients are float32
    assert not collectives(found, "activation")
    assert not collectives(found, "parameter")


def test_zero_1_scatters_gradients_and_gathers_parameters() -> None:
    found = planned(stated(topology(2, 4), dp=8, zero=1))
    large = 2 * WORDS * WIDTH + 2 * 4 * WIDTH * WIDTH
    sent = collectives(found, "gradient")
    assert sum(sent["per_step", "reduce_scatter"]) == 4 * large
    assert sum(sent["per_step", "all_reduce"]) == 4 * WIDTH  # the norm's scale is too small
    assert sum(collectives(found, "parameter")["per_step", "all_gather"]) == 2 * large


def test_tensor_parallelism_is_megatrons_pair() -> None:
    # Shoeybi et al. 2019, section 3: one all-reduce forward and one backward for an MLP, and the
    # same for embedding (forward) and head (backward); cross entropy on its part of the words
    found = planned(stated(topology(8), tp=8))
    own = strategies(found)
    assert own["up"] == {"n": ("tp",)}
    assert own["down"] == {"k": ("tp",)}
    assert own["act"] == {"d2": ("tp",)}
    assert own["embed"] == own["loss"] == {"v": ("tp",)}
    assert own["norm"] == own["residual"] == {}
    between = 2 * 64 * ROWS * WIDTH  # bfloat16
    assert collectives(found, "activation") == {
        ("forward", "all_reduce"): [between] * 2,
        ("backward", "all_reduce"): [between] * 2,
    }


def test_sequence_parallelism_halves_each_all_reduce_into_gather_and_scatter() -> None:
    # Korthikanti et al. 2022, section 4.2.2: the same bytes, and norms on their part of the rows
    found = planned(stated(topology(8), tp=8, sequence_parallel=True))
    own = strategies(found)
    assert own["norm"] == {"b1": ("tp",)}
    assert own["residual"] == {"d1": ("tp",)}
    assert own["up"] == {"n": ("tp",)}
    assert own["down"] == {"k": ("tp",)}
    between = 2 * 64 * ROWS * WIDTH
    sent = collectives(found, "activation")
    assert set(sent) == {
        (direction, kind)
        for direction in ("forward", "backward")
        for kind in ("all_gather", "reduce_scatter")
    }
    assert {size for sizes in sent.values() for size in sizes} == {between}
    assert sum(len(sizes) for sizes in sent.values()) == 8


def test_words_are_cut_with_one_sequence_a_microbatch_too() -> None:
    """The batch is then no dim that can be cut; a table of words is still one by its rows."""
    found = planned(stated(topology(8), batch=1, tp=8, sequence_parallel=True))
    assert strategies(found)["embed"] == {"v": ("tp",)}


# --- what it costs --------------------------------------------------------------------------------

DEGREES = [
    {"dp": 8},
    {"dp": 8, "zero": 3},
    {"dp": 4, "tp": 2, "zero": 1},
    {"dp": 2, "tp": 4},
    {"tp": 8, "sequence_parallel": True},
    {"dp": 2, "tp": 4, "zero": 2, "sequence_parallel": True},
]


@pytest.mark.rotating
@pytest.mark.parametrize("degrees", DEGREES, ids=str)
@pytest.mark.parametrize("microbatches", [1, 4])
def test_no_stated_strategy_beats_the_search_on_the_same_devices(
    degrees: dict[str, object], microbatches: int
) -> None:
    request = stated(topology(2, 4), setup=Setup(microbatches=microbatches), **degrees)
    found = planned(request)
    searched = planned(request.model_copy(update={"degrees": None}))
    assert searched.search.lower_bound_ns <= found.cost.objective_ns * (1 + 1e-9)
    assert evaluate(problem_of(request), found) == found.cost


@pytest.mark.parametrize("degrees", DEGREES, ids=str)
def test_every_stated_strategy_is_right(degrees: dict[str, object]) -> None:
    request = stated(topology(2, 4), **degrees)
    own = verify_documents(planned(request), request.graph, request.topology, request.setup)
    assert own.outcome == "verified"


def test_a_pipeline_is_cut_into_stages_of_as_many_layers() -> None:
    request = toy_request(
        graph=layered(8, batch=16),
        topology=topology(4, 2),
        setup=Setup(microbatches=8),
        degrees=Degrees(tp=2),
        pipeline=Pipeline(ranks=4),
    )
    found = planned(request)
    assert found.schedule is not None
    assert (found.schedule.kind, found.schedule.ranks) == ("1f1b", 4)
    layers = [{op.op.split(".")[0] for op in stage.ops} for stage in found.stages]
    assert [own & set("01234567") for own in layers] == [set("01"), set("23"), set("45"), set("67")]
    assert (
        verify_documents(found, request.graph, request.topology, request.setup).outcome
        == "verified"
    )


def test_virtual_stages_interleave_and_microbatches_are_one_sequence_by_default() -> None:
    request = toy_request(
        graph=layered(8, batch=16),
        topology=topology(2, 4),
        degrees=Degrees(dp=4, zero=1),
        pipeline=Pipeline(ranks=2, stages_per_rank=4),
    )
    found = planned(request)
    assert found.schedule is not None
    assert found.schedule.kind == "interleaved_1f1b"
    assert len(found.stages) == 8
    assert found.microbatches == 16 // 4


# --- sequences and experts ------------------------------------------------------------------------


def context_parallel(**degrees: object) -> Request:
    """A GPT block of 16 rows of 32 tokens, 8 heads."""
    return toy_request(
        graph=gpt(batch=16, heads=8, width=64, vocabulary=1024),
        topology=topology(2, 4),
        setup=ONE_BATCH,
        degrees=Degrees.model_validate(degrees),
    )


def test_context_parallelism_cuts_the_sequence_of_every_op_and_keys_and_values_go_round() -> None:
    request = context_parallel(dp=2, cp=4)
    found = planned(request)
    own = strategies(found)
    for name in ("embed", "norm", "qkv", "up", "down", "head", "loss"):
        assert own[name] == {"b0": ("dp",), "b1": ("cp",)}, name
    assert own["attention"]["s"] == ("cp",)
    assert not collectives(found, "activation")
    (attention,) = [op for op in found.stages[0].ops if op.op == "attention"]
    assert attention.followers == ("cp",)
    # round the ring go a device's keys and values: 16 / 2 rows of 32 / 4 tokens of 64 float32
    local = 2 * (16 // 2) * (32 // 4) * 64 * 4
    forward = [step for step in attention.own_steps if step.direction == "forward"]
    assert [(step.what, step.times, step.payload_bytes) for step in forward] == [("ring", 3, local)]
    own_proof = verify_documents(found, request.graph, request.topology, request.setup)
    assert own_proof.outcome == "verified"


def test_tensor_and_context_parallelism_go_together() -> None:
    request = context_parallel(cp=2, tp=4, sequence_parallel=True, zero=1)
    found = planned(request)
    own = strategies(found)
    assert own["qkv"] == {"b1": ("cp",), "n1": ("tp",)}
    assert own["attention"] == {"s": ("cp",), "g": ("tp",)}
    assert own["o"] == {"b1": ("cp",), "k0": ("tp",)}
    assert own["norm"] == {"b1": ("cp", "tp")}
    assert own["add"] == {"d1": ("cp", "tp")}
    own_proof = verify_documents(found, request.graph, request.topology, request.setup)
    assert own_proof.outcome == "verified"


def test_expert_parallelism_sends_tokens_to_the_experts_and_back() -> None:
    graph = experts(batch=64, count=16)
    request = toy_request(
        graph=graph,
        topology=topology(2, 4),
        setup=ONE_BATCH,
        degrees=Degrees(dp=8, ep=4, zero=1),
    )
    found = planned(request)
    own = strategies(found)
    assert own["first"] == own["router"] == {"b0": ("dp", "ep")}
    assert own["up"] == own["down"] == {"e": ("ep",), "b": ("dp",)}
    sent = collectives(found, "activation")
    assert set(sent) == {("forward", "all_to_all"), ("backward", "all_to_all")}
    assert len(sent["forward", "all_to_all"]) == len(sent["backward", "all_to_all"]) == 2
    layouts = {own.tensor: str(own.value) for own in found.stages[0].parameters}
    assert layouts["up"] == "[16@ep, 128, 64]"
    assert "@" not in layouts["router"]
    own_proof = verify_documents(found, request.graph, request.topology, request.setup)
    assert own_proof.outcome == "verified"


# --- what it cannot be ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("degrees", "said"),
    [
        ({"dp": 4}, "dp 4 × tp 1 make 4 devices, a pipeline rank has 8"),
        ({"tp": 3}, "tp 3 does not divide the 8 devices"),
        ({"ep": 2}, "no op has experts"),
        ({"cp": 2}, "no op has a sequence"),
    ],
)
def test_degrees_that_cannot_be_are_refused(degrees: dict[str, object], said: str) -> None:
    request = stated(topology(2, 4), **degrees)
    for ask in (check, plan):
        with pytest.raises((RequestError, InvalidInput), match=said):
            ask(request)


def test_a_batch_that_dp_does_not_divide_names_the_op() -> None:
    with pytest.raises(InvalidInput, match="op 'embed': its batch of a microbatch \\(4\\)"):
        plan(stated(topology(2, 4), batch=4, dp=8))


def test_an_axis_keeps_inside_a_level() -> None:
    with pytest.raises(RequestError, match="tp 2 cannot be made of 2 node × 3 gpu"):
        plan(stated(topology(2, 3), batch=12, tp=2, dp=3))


def test_what_tp_cannot_cut_is_said() -> None:
    graph = transformer_mlp(8, rows=4, width=WIDTH)
    graph.parameter("w odd", 3, WIDTH)
    graph.op("linear", ["residual:out", "w odd"], ["batch", 4, 3], "odd")
    request = toy_request(
        graph=graph.graph("loss:out", "odd:out", loss="loss:out"),
        topology=topology(4),
        setup=ONE_BATCH,
        degrees=Degrees(tp=4),
    )
    assert "tp cuts nothing of 'odd': its devices repeat it" in planned(request).notes
