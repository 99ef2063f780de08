"""Given strategies are kept; the rest is data parallel, or propagated."""

from __future__ import annotations

import pytest

from meshwright.schema import Pin
from meshwright_solver.constraints.pin_filters import pin_filters
from meshwright_solver.constraints.pins import pinned_ops
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.stage.heuristics.propagation.inputs import Propagation
from meshwright_solver.stage.heuristics.propagation.semi_auto import Rest, semi_auto
from meshwright_solver.stage.heuristics.propagation.sharding_propagation import (
    at_prices,
    sharding_propagation,
)
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.verification.verify import verify
from tests.solver.completions import axes_on, completed_cost_ns, completed_plan
from tests.solver.small_graphs import GraphMaker, models

TENSOR_PARALLEL = Pin(op="mlp.fc1", inputs=[["a0", 1], ["a1", 1]])
HALF_SAID = Pin(op="mlp.fc1", inputs=[None, ["a1", 1]])


def network() -> Models:
    """Four layers with a loss; the middle two are the module `mlp`."""
    maker = GraphMaker(batch=8)
    x = maker.input("x", "batch", 16)
    for k, module in enumerate(("head", "mlp", "mlp", "tail")):
        fields = {"module": module}
        weight = maker.parameter(f"w{k}", 16, 16)
        x = maker.op("linear", [x, weight], ["batch", 16], f"{module}.fc{k}", **fields)
        x = maker.op("gelu", [x], ["batch", 16], f"{module}.act{k}", **fields)
    loss = maker.op("mean", [x], [], "loss", attrs={"dims": [0, 1]})
    return models(maker.graph(loss, loss=loss), (2, 4))


def answer(found: Models, *pins: Pin, rest: Rest = "data_parallel") -> Propagation:
    pinned = pinned_ops(found.problem, pins, found.values.views)
    return semi_auto(
        found, pin_filters(found.problem, pinned, values=found.values, mesh=found.mesh), rest
    )


def by_name(found: Models, own: Propagation) -> dict[str, dict[str, str]]:
    return {
        found.problem.ops[p].name: axes_on(found, found.problem.ops[p].name, row)
        for p, row in own.strategies.items()
    }


def test_what_is_not_given_is_data_parallel():
    found = network()
    placed = by_name(found, answer(found, TENSOR_PARALLEL))
    assert placed.pop("mlp.fc1") == {"a0": "b0", "a1": "n"}
    assert set(placed) == {op.name for op in found.problem.ops} - {"mlp.fc1"}
    for name, axes in placed.items():
        assert set(axes.values()) <= {"b0", "d0"}, name


@pytest.mark.parametrize(("pins", "asked"), [((), 1), ((TENSOR_PARALLEL,), 1), ((HALF_SAID,), 5)])
def test_prices_of_memory_are_tried_only_where_something_is_left_to_choose(pins, asked):
    found = network()
    seen = []

    def ask(ns_per_byte: float) -> Propagation:
        seen.append(ns_per_byte)
        pinned = pinned_ops(found.problem, pins, found.values.views)
        seeds = pin_filters(found.problem, pinned, values=found.values, mesh=found.mesh)
        return semi_auto(found, seeds, ns_per_byte=ns_per_byte)

    assert list(at_prices(ask, 1e9))
    assert len(seen) == asked


def test_redistributions_are_inserted_priced_and_executed():
    found = network()
    own = answer(found, TENSOR_PARALLEL)
    plan = completed_plan(found, own.strategies)
    moved = [r for r in plan.stages[0].redistributions if r.traffic == "activation"]
    assert {r.tensor for r in moved} >= {"head.act0:out", "mlp.fc1:out"}
    assert all(r.ns > 0 for r in moved)
    assert evaluate(found.problem, plan).objective_ns == pytest.approx(own.cost_ns, rel=1e-9)
    assert own.cost_ns == pytest.approx(completed_cost_ns(found, own.strategies), rel=1e-9)
    certificate = verify(found.problem, plan)
    assert certificate.outcome == "verified", certificate.detail


def test_the_rest_may_be_propagated_instead():
    found = network()
    pinned = pinned_ops(found.problem, [TENSOR_PARALLEL], found.values.views)
    seeds = pin_filters(found.problem, pinned, values=found.values, mesh=found.mesh)
    own = answer(found, TENSOR_PARALLEL, rest="propagate")
    spread = sharding_propagation(found, seeds)
    assert all((own.strategies[p] == row).all() for p, row in spread.strategies.items())
    assert own.cost_ns <= answer(found, TENSOR_PARALLEL).cost_ns


def test_a_module_can_be_set_data_parallel_and_one_of_its_ops_not():
    found = network()
    placed = by_name(found, answer(found, Pin(op="mlp", data_parallel=True), TENSOR_PARALLEL))
    assert placed["mlp.fc1"] == {"a0": "b0", "a1": "n"}
    assert placed["mlp.fc2"] == {"a0": "b0", "a1": "b0"}
    every = Pin(op="*.fc*", strategy={"n": ("a1",)})
    placed = by_name(found, answer(found, every, Pin(op="mlp", data_parallel=True)))
    assert placed["mlp.fc1"] == placed["mlp.fc2"] == {"a0": "b0", "a1": "b0"}
    assert placed["head.fc0"] == placed["tail.fc3"] == {"a0": "", "a1": "n"}


def test_given_neighbours_that_clash_are_a_conflict():
    found = network()
    column = Pin(op="mlp.fc2", strategy={"n": ("a0", "a1")})
    conflicts = answer(found, Pin(op="mlp.act1", data_parallel=True), column).conflicts
    assert [(own.first, own.second) for own in conflicts] == [("mlp.act1", "mlp.fc2")]
    assert conflicts[0].tensor == "mlp.act1:out"


def test_one_of_several_strategies_that_cuts_leave_is_chosen_by_cost():
    found = network()
    loose = Pin(op="mlp.fc1", inputs=[["a0", 1], None])
    own = answer(found, loose)
    others = [
        answer(found, Pin(op="mlp.fc1", strategy=strategy)).cost_ns
        for strategy in ({"b0": ("a0",)}, {"b0": ("a0",), "n": ("a1",)})
    ]
    assert own.cost_ns <= min(others) * (1 + 1e-9)
