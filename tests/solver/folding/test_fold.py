"""Folded graphs are planned as the whole ones are: same cost, same bound, a plan for every op."""

from __future__ import annotations

import pytest

from meshwright.schema import Budget, Graph, Pin, Plan, Request, Setup
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.folding import folding_cache
from meshwright_solver.folding.fold import Folding, fold
from meshwright_solver.planning.planner import plan
from tests.solver.nested_graphs import residual
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, problem, topology


def layered(layers: int, *, widths: dict[int, int] | None = None, keep: int | None = None) -> Graph:
    """A residual network; `widths`: other inner sizes; `keep`: a layer that the end reads too."""
    make = GraphMaker(batch=16)
    table = make.tensor("table", [64], "constant")
    x = make.input("x", "batch", 64)
    x = make.op("linear", [x, make.parameter("w_in", 64, 64)], ["batch", 64], "into")
    kept = None
    for k in range(layers):
        width = (widths or {}).get(k, 256)
        up = make.parameter(f"{k}.up", width, 64)
        down = make.parameter(f"{k}.down", 64, width)
        inner = make.op("linear", [x, up], ["batch", width], f"{k}.first")
        inner = make.op("relu", [inner], ["batch", width], f"{k}.relu")
        outer = make.op("linear", [inner, down], ["batch", 64], f"{k}.second")
        scaled = make.op("mul", [outer, table], ["batch", 64], f"{k}.scale")
        x = make.op("add", [x, scaled], ["batch", 64], f"{k}.add")
        kept = x if k == keep else kept
    if kept is not None:
        x = make.op("add", [x, kept], ["batch", 64], "long")
    loss = make.op("mean", [x], [], "loss", attrs={"dims": [0, 1]})
    return make.graph(loss, loss=loss)


def test_two_layers_at_each_end_and_one_between_are_kept() -> None:
    graph = layered(12)
    folding = fold(graph, {})
    ((run,),) = folding.levels
    assert (run.copies, run.period) == (12, 5)
    layers = sorted({int(op.name.split(".")[0]) for op in folding.graph.ops if "." in op.name})
    assert layers == [0, 1, 2, 10, 11]
    # what followed layer 9 now follows layer 2
    first = next(op for op in folding.graph.ops if op.name == "10.first")
    assert first.inputs == ("2.add:out", "10.up")
    assert run.renamed(2, 7)["2.first"] == "7.first"
    assert run.renamed(2, 7)["2.up"] == "7.up"
    assert "table" not in run.renamed(2, 7)
    Graph.from_dict(folding.graph.model_dump(mode="json", exclude_defaults=True))


def test_what_differs_is_not_folded() -> None:
    assert not fold(layered(6), {}).levels
    ((run,),) = fold(layered(20, widths={3: 512}), {}).levels
    assert run.ops[0][0].startswith(("4.", "3."))
    assert not fold(layered(10, keep=4), {}).levels
    pinned = {f"{k}.first": (0,) for k in range(12)}
    assert fold(layered(12), pinned).levels[0][0].copies == 12
    assert not fold(layered(12), {"6.first": (0,)}).levels


def _whole(request: Request, monkeypatch: pytest.MonkeyPatch) -> Plan:
    with monkeypatch.context() as patched:
        patched.setattr(folding_cache, "foldings", lambda graph, _: iter([Folding.none(graph)]))
        found = plan(request).plan
    assert found is not None
    return found


CASES = {
    "plain": (layered(9), {}, 1 << 34),
    "tight": (layered(11), {"microbatches": 2}, 900_000),
    "two runs": (layered(18, widths=dict.fromkeys(range(9), 512)), {}, 1 << 34),
    "inference": (layered(9), {"phase": "inference"}, 1 << 34),
    "groups": (residual([(7, [(7, [256]), 512])]), {}, 1 << 34),
    "groups, tight": (residual([(7, [(8, [256]), 512])]), {"microbatches": 2}, 6_000_000),
    "groups, uneven": (residual([(7, [(7, [250]), 512])]), {"uneven": "pad"}, 1 << 34),
    "uneven": (layered(9, widths=dict.fromkeys(range(9), 250)), {"uneven": "pad"}, 1 << 34),
}


@pytest.mark.parametrize("case", CASES)
def test_a_folded_plan_is_the_plan_of_the_whole_graph(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, setup, memory_bytes = CASES[case]
    devices = topology(2, 4, memory_bytes=memory_bytes, bytes_per_s=1e9)
    request = toy_request(
        graph=graph,
        topology=devices,
        setup=Setup(**{"microbatches": 1, **setup}),
        budget=Budget(simplicity=0),
    )
    assert fold(graph, {}).levels
    folded = plan(request).plan
    assert folded is not None
    whole = _whole(request, monkeypatch)
    assert folded.cost.objective_ns == pytest.approx(whole.cost.objective_ns, rel=2e-3)
    assert folded.search.lower_bound_ns <= whole.cost.objective_ns * (1 + 1e-9)
    assert whole.search.lower_bound_ns <= folded.cost.objective_ns * (1 + 1e-9)
    stage, other = folded.stages[0], whole.stages[0]
    assert [op.op for op in stage.ops] == [op.op for op in other.ops]
    assert [t.tensor for t in stage.tensors] == [t.tensor for t in other.tensors]
    assert {p.tensor for p in stage.parameters} == {p.tensor for p in other.parameters}
    if "uneven" in case:
        assert {p.tensor for p in folded.padding} == {p.tensor for p in whole.padding}
    # where memory binds, plans that cost as much may repeat more or less
    if "tight" not in case:
        assert folded.repeated_work == pytest.approx(whole.repeated_work, abs=1e-3)
    judged = evaluate(problem(graph, devices, request.setup), folded)
    assert judged.step_ns == pytest.approx(folded.cost.step_ns, rel=1e-12)
    assert judged.objective_ns == pytest.approx(folded.cost.objective_ns, rel=1e-12)
    assert judged.memory_bytes == folded.cost.memory_bytes


@pytest.mark.parametrize(
    "solver",
    ["dynamic_programming", "recursive_programming", "sharding_propagation", "semi_auto", "exact"],
)
def test_every_search_plans_groups(solver: str) -> None:
    graph = residual([(8, [(9, [256]), 512])])
    memory_bytes = 1 << 34 if solver == "exact" else 20_000_000  # it takes 20 s to fit
    devices = topology(2, 4, memory_bytes=memory_bytes, bytes_per_s=1e9)
    pins = (Pin(op="*.first", strategy={"k": ("gpu",)}),) if solver == "semi_auto" else ()
    request = toy_request(
        graph=graph, topology=devices, setup=Setup(microbatches=1), solver=solver, pins=pins
    )
    found = plan(request).plan
    assert found is not None
    assert found.search.lower_bound_ns <= found.cost.objective_ns
    assert [op.op for op in found.stages[0].ops] == [op.name for op in graph.ops]
    judged = evaluate(problem(graph, devices, request.setup), found)
    assert judged.step_ns == pytest.approx(found.cost.step_ns, rel=1e-12)
    assert judged.objective_ns == pytest.approx(found.cost.objective_ns, rel=1e-12)
    assert judged.memory_bytes == found.cost.memory_bytes


def test_a_pin_on_one_layer_holds_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pin = Pin(op="8.first", strategy={"k": ("gpu",)})
    request = toy_request(
        graph=layered(24), topology=topology(2, 4), setup=Setup(microbatches=1), pins=(pin,)
    )
    folded = plan(request).plan
    assert folded is not None
    chosen = {op.op: op.strategy for op in folded.stages[0].ops}
    axes = {axis.name for axis in folded.stages[0].mesh.axes if axis.level == "gpu"}
    assert set(chosen["8.first"]["k"]) == axes
    assert folded.cost.objective_ns == pytest.approx(
        _whole(request, monkeypatch).cost.objective_ns, rel=2e-3
    )
