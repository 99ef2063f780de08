"""Constraints: what they forbid is in no plan, what they allow is untouched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from meshwright.schema import Constraints, Pin, RequestError, Setup
from meshwright_solver.constraints.pins import pinned_ops
from meshwright_solver.constraints.strategy_filters import Filters, filters
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.lowering.lower import lower
from meshwright_solver.planning.planner import plan
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.verification.verify import verify
from tests.solver.completions import axes_on, completed_plan, least_cost_ns
from tests.solver.random_problems import Case, cases
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, models, topology


def constrained(found: Models, *pins: Pin, module: str | None = None, **wishes: Any) -> Filters:
    """What a request with these constraints leaves of a problem's strategies."""
    problem = found.problem
    request = toy_request(
        graph=problem.graph,
        topology=problem.topology,
        setup=problem.setup,
        pins=pins,
        module=module,
        constraints=Constraints(**wishes),
    )
    pinned = pinned_ops(problem, pins, found.values.views)
    return filters(problem, request, pinned, found.values, found.mesh)


def best(found: Models, own: Filters) -> dict[str, np.ndarray]:
    """The strategy of every op in the cheapest plan."""
    found.followers = own.followers
    lowered = lower(found, own.all, None)
    choice = dynamic_programming(lowered.graph, SearchBudget()).choice
    assert choice is not None
    return {
        found.problem.ops[p].name: lowered.op_choices[p][choice[node]]
        for p, node in lowered.op_node.items()
    }


def test_without_constraints_nothing_is_filtered():
    found = wide()
    assert constrained(found).all == {}
    assert constrained(found).followers == {}


# --- fully_use_devices ---------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(cases())
def test_an_op_uses_all_devices_or_none(case: Case):
    found = case.models
    own = constrained(found, fully_use_devices=True)
    counts = [a for a, size in enumerate(found.mesh.axes) if size.size > 1]
    for position, keep in own.all.items():
        model = found.ops.model(position)
        for row, kept in zip(model.choices, keep(model, model.choices), strict=True):
            idle = [row[a] == model.idle for a in counts]
            assert kept == (all(idle) or not any(idle))


def test_a_batch_for_some_of_the_devices_is_then_not_cut_at_all():
    maker = GraphMaker(batch=2)
    # a sorted dim stays whole: on 2 x 4 devices only two can share the work
    x = maker.op("sort", [maker.input("x", "batch", 1 << 20)], ["batch", 1 << 20], "sorted",
                 attrs={"dim": 1})  # fmt: skip
    found = models(maker.graph(x), (2, 4))
    free = best(found, constrained(found))["sorted"]
    assert axes_on(found, "sorted", free) == {"a0": "d0", "a1": ""}
    own = best(found, constrained(found, fully_use_devices=True))["sorted"]
    assert axes_on(found, "sorted", own) == {"a0": "", "a1": ""}


# --- slice alignment -----------------------------------------------------------------------------


def wide(setup: Setup | None = None) -> Models:
    """Matrix products whose columns are cheap to cut."""
    maker = GraphMaker(batch=8)
    x = maker.input("x", "batch", 96)
    y = maker.op("linear", [x, maker.parameter("w", 96, 96)], ["batch", 96], "fc")
    z = maker.op("gelu", [y], ["batch", 96], "act")
    maker.op("linear", [z, maker.parameter("v", 96, 96)], ["batch", 96], "fc2")
    return models(maker.graph("fc2:out"), (2, 4), setup)


@pytest.mark.parametrize("elements", [5, 12, 16, 24, 48, 96])
def test_cut_last_dims_of_matrix_products_are_multiples(elements: int):
    found = wide()
    own = constrained(found, slice_alignment=elements)
    assert sorted(found.problem.ops[p].name for p in own.all) == ["fc", "fc2"]
    for position, keep in own.all.items():
        model = found.ops.model(position)
        names = [part.name for part in found.problem.ops[position].parts]
        for row, kept in zip(model.choices, keep(model, model.choices), strict=True):
            ways = {"n": 1, "k": 1, "b0": 1}
            for code, size in zip(row.tolist(), model.axis_sizes, strict=True):
                if code < model.parts:
                    ways[names[code]] *= size
            cut = [way for name, way in ways.items() if name != "b0" and way > 1]
            assert kept == all(96 % (way * elements) == 0 for way in cut)


def test_uneven_chunks_are_aligned_as_they_are():
    maker = GraphMaker(batch=8)
    maker.op("linear", [maker.input("x", "batch", 8), maker.parameter("w", 250, 8)],
             ["batch", 250], "fc")  # fmt: skip
    found = models(maker.graph("fc:out"), (4,), Setup(uneven="chunk"))
    model = found.ops.model(0)
    columns = (model.choices == 2).any(axis=1)
    assert columns.any()
    for elements, kept in ((63, True), (21, True), (64, False)):  # 250 in chunks of 63
        own = constrained(found, slice_alignment=elements).all[0]
        assert own(model, model.choices)[columns].all() == kept


# --- all-to-alls ---------------------------------------------------------------------------------


def transposed(allow: bool) -> Models:
    """Rows that are needed as columns: a softmax over each dim."""
    maker = GraphMaker()
    x = maker.op("linear", [maker.input("x", 1024, 8), maker.parameter("w", 1024, 8)],
                 [1024, 1024], "fc")  # fmt: skip
    x = maker.op("softmax", [x], [1024, 1024], "rows", attrs={"dim": 1})
    x = maker.op("softmax", [x], [1024, 1024], "columns", attrs={"dim": 0})
    loss = maker.op("mean", [x], [], "loss", attrs={"dims": [0, 1]})
    return models(maker.graph(loss, loss=loss), (4,), Setup(allow_all_to_all=allow))


ROWS = Pin(op="rows", strategy={"d0": ("a0",)})
COLUMNS = Pin(op="columns", strategy={"d1": ("a0",)})


@pytest.mark.parametrize("allow", [True, False])
def test_without_all_to_all_a_plan_gathers_and_slices(allow: bool):
    found = transposed(allow)
    own = constrained(found, ROWS, COLUMNS)
    own_plan = completed_plan(found, dict(enumerate(best(found, own).values())))
    kinds = {
        step.kind
        for r in own_plan.stages[0].redistributions
        if r.tensor == "rows:out"
        for step in (*r.forward, *r.backward)
    }
    assert ("all_to_all" in kinds) == allow
    assert allow or {"all_gather", "slice"} <= kinds
    assert evaluate(found.problem, own_plan).objective_ns == pytest.approx(
        own_plan.cost.objective_ns, rel=1e-9
    )
    assert verify(found.problem, own_plan).outcome == "verified"


def test_all_to_alls_only_ever_help():
    pins = (ROWS, COLUMNS)
    costs = [
        least_cost_ns(found, constrained(found, *pins).all)
        for found in (transposed(True), transposed(False))
    ]
    assert costs[0] < costs[1]


def test_without_all_to_all_no_op_sends_for_rows():
    maker = GraphMaker(batch=8)
    ids = maker.input("ids", "batch", dtype="int64")
    table = maker.parameter("table", 64, 8)
    maker.op("embedding", [table, ids], ["batch", 8], "rows")
    for allow in (True, False):
        found = models(maker.graph("rows:out"), (4,), Setup(allow_all_to_all=allow))
        model = found.ops.model(0)
        sends = model.choices[:, 0] > model.idle
        assert sends.any()
        keep = constrained(found).all.get(0)
        kept = np.ones(len(sends), dtype=np.bool_) if keep is None else keep(model, model.choices)
        assert kept[~sends].all()
        assert kept[sends].all() == allow


# --- a submodule ---------------------------------------------------------------------------------


def modules() -> Models:
    maker = GraphMaker(batch=8)
    x = maker.input("x", "batch", 64)
    for module in ("one", "two", "three"):
        w = maker.parameter(f"w.{module}", 64, 64)
        x = maker.op("linear", [x, w], ["batch", 64], f"{module}.fc", module=module)
        x = maker.op("gelu", [x], ["batch", 64], f"{module}.act", module=module)
    return models(maker.graph(x), (2, 4))


def test_outside_of_a_submodule_ops_are_data_parallel_or_as_pinned():
    found = modules()
    own = constrained(found, Pin(op="three.fc", strategy={"n": ("a1",)}), module="two")
    inside = {"two.fc", "two.act"}
    free = [found.problem.ops[p].name for p in range(len(found.problem.ops)) if p not in own.all]
    assert set(free) == inside
    placed = {name: axes_on(found, name, row) for name, row in best(found, own).items()}
    for name in ("one.fc", "one.act", "three.act"):
        assert set(placed[name].values()) <= {"b0", "d0"}
    assert placed["three.fc"] == {"a0": "", "a1": "n"}
    assert least_cost_ns(found, own.all) <= least_cost_ns(
        found, constrained(found, *PARALLEL, Pin(op="three.fc", strategy={"n": ("a1",)})).all
    ) * (1 + 1e-9)


PARALLEL = (Pin(op="*", data_parallel=True),)


def test_a_submodule_that_is_not_there_is_refused_by_name():
    with pytest.raises(RequestError, match=r"module 'four' matches no op.*'one', 'two', 'three'"):
        constrained(modules(), module="four")


# --- element-wise ops follow ---------------------------------------------------------------------


def following() -> Models:
    """An activation between two products, and one whose value two ops read."""
    maker = GraphMaker(batch=64)
    x = maker.op("gelu", [maker.input("x", "batch", 64)], ["batch", 64], "in")
    y = maker.op("linear", [x, maker.parameter("w", 64, 64)], ["batch", 64], "fc")
    z = maker.op("gelu", [y], ["batch", 64], "act")
    z = maker.op("add", [z, y], ["batch", 64], "sum")
    loss = maker.op("mean", [z], [], "loss", attrs={"dims": [0, 1]})
    return models(maker.graph(loss, loss=loss), (4,))


def test_no_redistribution_is_made_for_an_element_wise_op():
    found = following()
    columns = Pin(op="fc", strategy={"n": ("a0",)})
    own = constrained(found, columns, elementwise_follow=True)
    names = {found.problem.ops[p].name: port for p, port in own.followers.items()}
    assert names == {"act": 0, "sum": 0}  # what `in` reads is loaded as it likes
    placed = {name: axes_on(found, name, row)["a0"] for name, row in best(found, own).items()}
    assert placed["fc"] == "n"
    assert placed["act"] == placed["sum"] == "d1"


@settings(max_examples=40, deadline=None)
@given(cases())
def test_followers_take_what_they_read_as_it_lies_and_cost_no_less(case: Case):
    found = case.models
    free = least_cost_ns(found, {})
    own = constrained(found, elementwise_follow=True)
    found.followers = own.followers
    lowered = lower(found, {}, None)
    outcome = dynamic_programming(lowered.graph, SearchBudget())
    assert outcome.choice is not None
    assert outcome.cost_ns >= free * (1 - 1e-9)
    for position, port in own.followers.items():
        op = found.problem.ops[position]
        value = found.values.value_of[op.inputs[port].tensor]
        if len(value.readers) > 1 or value.root not in lowered.rest_node:
            continue
        n = len(value.slots)
        row = lowered.op_choices[position][outcome.choice[lowered.op_node[position]]]
        needed = found.ops.model(position).required(row[None, :], port)[0]
        rest = lowered.rest_states[value.root][outcome.choice[lowered.rest_node[value.root]]]
        reach = found.ops.model(position).required(found.ops.model(position).choices, port)
        as_values = np.where(reach == n + 2, n, reach)
        can = ((as_values == np.where(rest == n + 2, n, rest)) | (rest == n + 1)).all(axis=1)
        if can.any():
            for before, after in zip(rest.tolist(), needed.tolist(), strict=True):
                assert before == n + 1 or {before, after} <= {n, n + 2} or before == after


def test_pinned_ops_follow_nobody():
    found = following()
    pin = Pin(op="act", strategy={"d0": ("a0",)})
    own = constrained(found, pin, elementwise_follow=True)
    assert "act" not in {found.problem.ops[p].name for p in own.followers}


def test_a_submodule_of_one_of_many_layers_is_searched_alone():
    """Equal layers are folded; the one that is asked for is not."""
    maker = GraphMaker(batch=8)
    x = maker.input("x", "batch", 64)
    for k in range(12):
        fields = {"module": f"layers.{k}"}
        x = maker.op("linear", [x, maker.parameter(f"w{k}", 64, 64)], ["batch", 64], f"fc{k}",
                     **fields)  # fmt: skip
        x = maker.op("gelu", [x], ["batch", 64], f"act{k}", **fields)
    request = toy_request(
        graph=maker.graph(x), topology=topology(2, 4), setup=Setup(microbatches=1),
        module="layers.5", pins=(Pin(op="fc5", strategy={"n": ("gpu0",)}),),
        solver="dynamic_programming",
    )  # fmt: skip
    found = plan(request).plan
    assert found is not None
    axes = {axis.name for axis in found.stages[0].mesh.axes}
    for own in found.stages[0].ops:
        if own.op not in ("fc5", "act5"):
            (used,) = own.strategy.values()
            assert set(used) == axes, own.op
