"""Every strategy in which a part follows another, executed; and own steps that are damaged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from meshwright.schema import Graph, OpPlan, OwnStep, Pin, Plan, Setup, Stage
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import Problem
from meshwright_solver.verification.verify import verify
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology


def attending(rows: int = 12, keys: int = 12, *, mask: bool = False) -> Graph:
    """Causal attention of four query heads in two groups between products, and a loss."""
    make = GraphMaker()
    heads = []
    for name, groups, length in (("q", 4, rows), ("k", 2, keys), ("v", 2, keys)):
        x = make.input(f"{name}in", 6, groups, length, 4)
        heads.append(
            make.op("linear", [x, make.parameter(f"w{name}", 4, 4)], [6, groups, length, 4], name)
        )
    if mask:
        heads.append(make.op("gelu", [make.parameter("bias", rows, keys)], [rows, keys], "mask"))
    attrs = {"causal": not mask}
    mixed = make.op("attention", heads, [6, 4, rows, 4], "it", attrs=attrs)
    out = make.op("linear", [mixed, make.parameter("wo", 4, 4)], [6, 4, rows, 4], "o")
    loss = make.op("mean", [out], [], "loss", attrs={"dims": [0, 1, 2, 3]})
    return make.graph(loss, loss=loss)


def looking_up(rows: int = 24) -> Graph:
    make = GraphMaker()
    ids = make.input("ids", 12, 6, dtype="int64")
    found = make.op("embedding", [make.parameter("table", rows, 8), ids], [12, 6, 8], "it")
    out = make.op("linear", [found, make.parameter("w", 4, 8)], [12, 6, 4], "out")
    loss = make.op("mean", [out], [], "loss", attrs={"dims": [0, 1, 2]})
    return make.graph(loss, loss=loss)


def planned(graph: Graph, strategy: dict, sizes: tuple[int, ...], mode: str = "refuse"):
    devices, setup = topology(*sizes), Setup(microbatches=1, uneven=mode)
    pins = (Pin(op="it", strategy=strategy),)
    answer = plan(toy_request(graph=graph, topology=devices, setup=setup, pins=pins))
    assert answer.plan is not None, strategy
    return problem(graph, devices, setup), answer.plan


def own_plan(found: Plan) -> OpPlan:
    (own,) = (own for own in found.stages[0].ops if own.op == "it")
    return own


RINGS = [
    {"s": ("gpu",), "t": ("gpu",)},
    {"s": ("node", "gpu"), "t": ("node", "gpu")},
    {"s": ("node", "gpu"), "t": ("gpu",)},
    {"s": ("gpu",), "t": ("gpu",), "g": ("node",)},
    {"s": ("gpu",), "t": ("gpu",), "r": ("node",)},
    {"s": ("node",), "t": ("node",), "b": ("gpu",)},
]
LOOKUPS = [
    {"b0": ("gpu",), "v": ("gpu",)},
    {"b0": ("node", "gpu"), "v": ("node", "gpu")},
    {"b0": ("node",), "b1": ("gpu",), "v": ("node", "gpu")},
    {"b0": ("gpu",), "v": ("node", "gpu")},
    {"b0": ("node", "gpu"), "v": ("gpu",)},
    {"b0": ("gpu",), "v": ("gpu",), "h": ("node",)},
]


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3)])
@pytest.mark.parametrize("strategy", RINGS)
def test_rings_equal_the_unsharded_run(strategy: dict, sizes: tuple[int, ...]) -> None:
    problem_, found = planned(attending(), strategy, sizes)
    assert {step.what for step in own_plan(found).own_steps} == {"ring"}
    assert set(own_plan(found).followers) == set(strategy["t"])
    certificate = verify(problem_, found)
    assert certificate.outcome == "verified", certificate.detail


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3)])
@pytest.mark.parametrize("strategy", LOOKUPS)
def test_exchanged_rows_equal_the_unsharded_run(strategy: dict, sizes: tuple[int, ...]) -> None:
    problem_, found = planned(looking_up(), strategy, sizes)
    own = own_plan(found)
    assert {step.what for step in own.own_steps} == {"indices", "rows"}
    led = {axis for name in ("b0", "b1") for axis in strategy.get(name, ())}
    assert set(own.followers) == led & set(strategy["v"])
    certificate = verify(problem_, found)
    assert certificate.outcome == "verified", certificate.detail


@pytest.mark.parametrize(("rows", "keys"), [(12, 24), (24, 12)])
def test_keys_of_another_length_go_round_too(rows: int, keys: int) -> None:
    certificate = verify(*planned(attending(rows, keys), RINGS[1], (2, 2)))
    assert certificate.outcome == "verified", certificate.detail


def test_a_trained_mask_over_both_stays_where_its_queries_are() -> None:
    certificate = verify(*planned(attending(mask=True), RINGS[1], (2, 2)))
    assert certificate.outcome == "verified", certificate.detail


@pytest.mark.parametrize("mode", ["chunk", "pad"])
@pytest.mark.parametrize(
    ("graph", "strategy"), [(attending(15, 15), RINGS[1]), (looking_up(23), LOOKUPS[1])]
)
def test_followers_may_be_uneven(graph: Graph, strategy: dict, mode: str) -> None:
    problem_, found = planned(graph, strategy, (2, 2), mode)
    assert own_plan(found).followers == ("node", "gpu")
    certificate = verify(problem_, found)
    assert certificate.outcome == "verified", certificate.detail


def mutants(own: OpPlan) -> Iterator[tuple[str, tuple[OwnStep, ...]]]:
    """Every own step left out, of another kind, over fewer axes, one send short, and the like."""
    steps = own.own_steps
    for k, step in enumerate(steps):
        changed: list[tuple[str, dict]] = [("another kind", {"kind": "all_reduce"})]
        if len(step.axes) > 1:
            changed.append(("fewer axes", {"axes": step.axes[:1]}))
        if step.what == "ring":
            changed.append(("one send short", {"times": step.times - 1}))
        if step.direction == "backward":
            changed.append(("forward instead", {"direction": "forward"}))
        yield f"{step.what} {step.direction} left out", (*steps[:k], *steps[k + 1 :])
        for what, update in changed:
            new = step.model_copy(update=update)
            yield f"{step.what} {step.direction} {what}", (*steps[:k], new, *steps[k + 1 :])


def damaged(stage: Stage, steps: tuple[OwnStep, ...]) -> Stage:
    ops = tuple(
        own.model_copy(update={"own_steps": steps}) if own.op == "it" else own for own in stage.ops
    )
    return stage.model_copy(update={"ops": ops})


@pytest.mark.parametrize(
    ("graph", "strategy", "most"), [(attending(), RINGS[1], 8), (looking_up(), LOOKUPS[1], 9)]
)
def test_every_damaged_own_step_is_caught(graph: Graph, strategy: dict, most: int) -> None:
    problem_, found = planned(graph, strategy, (2, 2))
    count = 0
    for what, steps in mutants(own_plan(found)):
        stage = damaged(found.stages[0], steps)
        certificate = verify(problem_, found.model_copy(update={"stages": (stage,)}))
        assert certificate.outcome == "failed", what
        count += 1
    assert count >= most


def softened() -> tuple[Problem, Plan]:
    """A softmax over columns that are split over all devices."""
    make = GraphMaker()
    x = make.op("gelu", [make.parameter("p", 8, 8)], [8, 8], "x")
    y = make.op("mul", [make.op("softmax", [x], [8, 8], "it"), x], [8, 8], "weighed")
    loss = make.op("mean", [y], [], "loss", attrs={"dims": [0, 1]})
    return planned(make.graph(loss, loss=loss), {"d1": ("node", "gpu")}, (2, 2))


def test_statistics_left_out_are_caught() -> None:
    problem_, found = softened()
    assert verify(problem_, found).outcome == "verified"
    for what, steps in mutants(own_plan(found)):
        if "another kind" in what:
            continue
        stage = damaged(found.stages[0], steps)
        certificate = verify(problem_, found.model_copy(update={"stages": (stage,)}))
        assert certificate.outcome == "failed", what
