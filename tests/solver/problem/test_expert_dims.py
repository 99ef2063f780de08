"""Plans with tokens spread unevenly over experts: what it touches, what it costs, what is said."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schema import Degrees, Graph, Pin, Pipeline, Plan, Request, Setup, SetupError
from meshwright.schema.pipeline import NO_PIPELINE
from meshwright_costmodel.expert_imbalance import group_load
from meshwright_solver.planning.planner import check, plan
from meshwright_solver.problem.expert_dims import is_mean_room
from meshwright_solver.simulation.step import step_of
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology
from tests.solver.verification.test_verify import decoder_layer

PINS = (
    Pin(op="tokens", strategy={"d0": ("gpu",)}),
    Pin(op="send", strategy={"b": ("gpu",)}),
    Pin(op="experts", strategy={"e": ("gpu",)}),
    Pin(op="act", strategy={"d0": ("gpu",)}),
    Pin(op="back", strategy={"b": ("gpu",)}),
)


def mixture(room: str = "seq//4") -> Graph:
    """Eight experts of which every token asks two: each has room for a quarter of the tokens."""
    make = GraphMaker(batch=8, seq=32)
    rows, shape = ["batch", "seq", 64], [8, "batch", room, 64]
    x = make.op("gelu", [make.input("x", *rows)], rows, name="tokens")
    x = make.op("linear", [x, make.parameter("first", 64, 64)], rows, name="first")
    gate = make.op("linear", [x, make.parameter("wg", 8, 64)], ["batch", "seq", 8], name="gate")
    best = make.tensor("best", ["batch", "seq", 2])
    which = make.tensor("which", ["batch", "seq", 2], dtype="int64")
    make.ops.append(
        {"name": "choose", "kind": "topk", "inputs": [gate], "outputs": [best, which],
         "attrs": {"k": 2, "dim": 2}}
    )  # fmt: skip
    factor = {"capacity_factor": 1.0 if room == "seq//4" else 2.0}
    sent = make.op("moe_dispatch", [x, which], shape, name="send", attrs=factor)
    made = make.op("expert_matmul", [sent, make.parameter("we", 8, 64, 64)], shape, name="experts",
                   attrs={"weight_layout": "efh"})  # fmt: skip
    made = make.op("gelu", [made], shape, name="act")
    back = make.op("moe_combine", [made, which, best], rows, name="back", attrs=factor)
    labels = make.tensor("labels", ["batch", "seq"], "label", dtype="int64")
    loss = make.op("cross_entropy", [back, labels], [], name="loss")
    return make.graph(loss, loss=loss)


def request(imbalance: float, *sizes: int, graph: Graph | None = None, **more: object) -> Request:
    setup = Setup(microbatches=1, expert_imbalance=imbalance, execution="eager")
    devices = topology(*sizes, flops_per_s=1e9)
    return toy_request(graph=graph or mixture(), topology=devices, setup=setup, **more)


def test_what_lies_between_dispatch_and_combine_is_loaded() -> None:
    setup = Setup(expert_imbalance=1.5)
    own = problem(mixture(), topology(8), setup)
    names = {op.name: position for position, op in enumerate(own.ops)}
    tensors = {key[0] for key in own.loads.experts if isinstance(key[0], str)}
    ops = {key[0] for key in own.loads.experts if isinstance(key[0], int)}
    assert tensors == {"send:out", "experts:out", "act:out"}
    assert ops == {names["experts"], names["act"]}
    assert not problem(mixture(), topology(8)).loads.experts


@pytest.mark.parametrize(
    ("room", "is_mean"), [("seq//4", True), ("seq//2", False), ("seq//8", False)]
)
def test_room_that_is_not_the_mean_is_a_capacity(room: str, is_mean: bool) -> None:
    own = problem(mixture(room), topology(8), Setup(expert_imbalance=1.5))
    assert bool(own.loads.experts) == is_mean


def test_room_is_a_whole_number() -> None:
    # 30 choices of 8 experts: 3.75 each, as 3 or as 4
    assert is_mean_room((8, 2, 3, 16), (2, 15, 2))
    assert is_mean_room((8, 2, 4, 16), (2, 15, 2))
    assert not is_mean_room((8, 2, 5, 16), (2, 15, 2))


def test_a_device_with_one_expert_works_as_long_as_the_busiest() -> None:
    """One strategy, by hand: what is between is 1.5 times as long, all else as before."""
    even, uneven = (planned(request(f, 8, pins=PINS)) for f in (1.0, 1.5))
    before, after = (
        {own.op: own.compute_ns for own in each.stages[0].ops} for each in (even, uneven)
    )
    # half as much again of 8 * 8 rows times 64 * 64, forward and for both gradients
    flops = 0.5 * 3 * 2 * 64**3
    more_ns = after["experts"] - before["experts"]
    assert more_ns == pytest.approx(flops / (0.65 * 1e9) * 1e9, rel=1e-6)
    assert {op for op in before if after[op] != before[op]} == {"experts", "act"}
    sent = {
        own.tensor: [move.payload_bytes for move in (*own.forward, *own.backward)]
        for own in uneven.stages[0].redistributions
        if any(move.kind == "all_to_all" for move in own.forward)
    }
    # 8 * 8 * 8 * 64 numbers of 4 bytes over 8 devices, the busiest has half as much again
    assert sent == {"send:out": [24576] * 2, "act:out": [24576] * 2}
    saved = [each.cost.memory_bytes.activations for each in (even, uneven)]
    # the experts' input and what gelu saves
    assert saved[1] - saved[0] == 2 * 8192


def test_a_device_with_two_experts_averages() -> None:
    even, uneven = (planned(request(f, 4, pins=PINS)) for f in (1.0, 1.5))
    before, after = (
        next(own.compute_ns for own in each.stages[0].ops if own.op == "experts")
        for each in (even, uneven)
    )
    assert after / before == pytest.approx(group_load(1.5, 8, 4), rel=1e-3)
    assert any("the busiest device, with experts cut 4 ways, 1.26 times" in n for n in uneven.notes)


def costs(found: Plan) -> tuple[float, float]:
    return found.cost.objective_ns, found.search.lower_bound_ns


@pytest.mark.parametrize("sizes", [(8,), (2, 4), (2, 8)])
@pytest.mark.parametrize("solver", ["dynamic_programming", "recursive_programming", "exact"])
def test_no_plan_gets_cheaper_by_imbalance(sizes: tuple[int, ...], solver: str) -> None:
    found = [planned(request(f, *sizes, solver=solver)) for f in (1.0, 1.3, 2.0, 8.0)]
    objectives, bounds = zip(*map(costs, found), strict=True)
    assert all(bound <= own * (1 + 1e-9) for own, bound in zip(objectives, bounds, strict=True))
    if solver == "dynamic_programming":
        assert list(objectives) == sorted(objectives)
    for own, f in zip(found, (1.0, 1.3, 2.0, 8.0), strict=True):
        asked = request(f, *sizes)
        certificate = verify_documents(own, asked.graph, asked.topology, asked.setup)
        assert certificate.outcome == "verified", certificate.detail


def test_what_is_cut_by_other_axes_waits_for_no_expert() -> None:
    """Rows of every expert over all devices: whatever the imbalance, all have the same."""
    pins = (Pin(op="experts", strategy={"b": ("gpu",)}),)
    even, uneven = (planned(request(f, 8, pins=pins)) for f in (1.0, 4.0))
    own = [{o.op: o.compute_ns for o in each.stages[0].ops}["experts"] for each in (even, uneven)]
    assert own[0] == own[1]


def test_a_capacity_is_said_to_be_one() -> None:
    even, uneven = (planned(request(f, 8, graph=mixture("seq//2"))) for f in (1.0, 2.0))
    assert costs(even) == costs(uneven)
    assert any("fixed capacity" in note for note in uneven.notes)
    assert not any("expert" in note for note in even.notes)


def test_a_graph_without_experts_has_none_to_be_uneven() -> None:
    with pytest.raises(SetupError, match="the graph has no experts"):
        check(request(1.5, 8, graph=decoder_layer()))
    with pytest.raises(SetupError, match="the graph has no experts"):
        plan(request(1.5, 8, graph=decoder_layer()))


@pytest.mark.parametrize("pipeline", [NO_PIPELINE, Pipeline(ranks=2, cuts=("experts",))])
def test_the_step_is_the_simulated_one(pipeline: Pipeline) -> None:
    """Stages that are cut between dispatch and experts have the same load on both sides."""
    pins = (Pin(op="experts", strategy={"e": ("gpu",)}), PINS[3])
    asked = request(1.8, 2, 4, pipeline=pipeline, pins=pins)
    found = planned(asked)
    step = step_of(found, asked.graph, asked.topology, asked.setup)
    assert found.cost.step_ns == pytest.approx(step.ns, rel=0.03)
    even = planned(request(1.0, 2, 4, pipeline=pipeline, pins=pins))
    assert found.cost.step_ns > even.cost.step_ns
    certificate = verify_documents(found, asked.graph, asked.topology, asked.setup)
    assert certificate.outcome == "verified", certificate.detail


def test_runs_of_rows_cost_the_arithmetic_of_the_busiest() -> None:
    make = GraphMaker(batch=64)
    x = make.op("gelu", [make.input("x", "batch", 64)], ["batch", 64], name="tokens")
    ends = make.input("ends", 8, dtype="int64")
    y = make.op("grouped_matmul", [x, make.parameter("we", 8, 64, 64), ends], ["batch", 64], "runs")
    loss = make.op("sum", [y], [], "loss", attrs={"dims": [0, 1]})
    graph = make.graph(loss, loss=loss)
    pins = (Pin(op="runs", strategy={"e": ("gpu",)}),)
    even, uneven = (planned(request(f, 8, graph=graph, pins=pins)) for f in (1.0, 1.5))
    own = [{o.op: o.compute_ns for o in each.stages[0].ops}["runs"] for each in (even, uneven)]
    # half as much again of 64 * 64 * 64 multiplications and additions over 8 devices, forward and
    # for the weights' gradient: nobody wants that of the input
    flops = 0.5 * 2 * 2 * 64**3 / 8
    assert own[1] - own[0] == pytest.approx(flops / (0.65 * 1e9) * 1e9, rel=1e-6)


def test_stated_experts_wait_too() -> None:
    found = [planned(request(f, 8, degrees=Degrees(dp=8, ep=8))) for f in (1.0, 2.0)]
    assert np.diff([own.cost.objective_ns for own in found]) > 0
