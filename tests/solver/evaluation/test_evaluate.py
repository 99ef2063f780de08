"""Evaluate: the same number by another way than the search's tables."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meshwright.schema import Graph, Plan, PlanError, Setup
from meshwright_solver.evaluation.evaluate import evaluate
from meshwright_solver.lowering.lower import lower
from meshwright_solver.planning.planner import plan
from meshwright_solver.problem.problem import Problem
from meshwright_solver.problem.values import find_values
from meshwright_solver.strategies.mesh_models import Models
from tests.solver.random_problems import Case, cases, checked_plan, plan_of, random_choice
from tests.solver.requests import toy_request
from tests.solver.small_graphs import GraphMaker, one_level_mesh, problem, topology


@settings(max_examples=120, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_a_plan_read_back_from_json_costs_what_the_cost_graph_says(case: Case, seed: int):
    choice = random_choice(case.lowered.graph, seed)
    assume(choice is not None)
    checked_plan(case, choice)


@settings(max_examples=80, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_the_steps_that_a_plan_lists_are_the_communication_that_it_pays(case: Case, seed: int):
    choice = random_choice(case.lowered.graph, seed)
    assume(choice is not None)
    found = plan_of(case, choice)
    stage, count = found.stages[0], found.microbatches
    listed = {"activation": 0.0, "parameter": 0.0, "gradient": 0.0}
    for moved in stage.redistributions:
        often = sum(step.ns for step in moved.forward) * (2 if moved.again else 1)
        often += sum(step.ns for step in moved.backward)
        once = sum(step.ns for step in moved.per_step)
        assert moved.ns == pytest.approx(often * count + once, rel=1e-9, abs=1e-3)
        listed[moved.traffic] += moved.ns
    listed["activation"] += sum(op.communication_ns for op in stage.ops)
    assert found.cost.communication_ns == pytest.approx(listed, rel=1e-9, abs=1e-3)
    compute = sum(op.compute_ns for op in stage.ops)
    assert found.cost.compute_ns >= compute * (1 - 1e-9)  # and the optimizer's update
    assert found.cost.memory_bytes.activations == pytest.approx(
        sum(tensor.saved_bytes for tensor in stage.tensors), abs=len(stage.tensors)
    )


# --- plans that were tampered with ---------------------------------------------------------------


def two_layers() -> GraphMaker:
    maker = GraphMaker(batch=16)
    x = maker.input("x", "batch", 8)
    a = maker.op("linear", [x, maker.parameter("w1", 8, 8)], ["batch", 8], "first")
    b = maker.op("gelu", [a], ["batch", 8], "act")
    c = maker.op("linear", [b, maker.parameter("w2", 8, 8)], ["batch", 8], "second")
    d = maker.op("add", [a, c], ["batch", 8], "residual")
    label = maker.tensor("label", ["batch"], "label", dtype="int64")
    maker.op("cross_entropy", [d, label], [], "loss")
    return maker


DEVICES = topology(2, 2)


@pytest.fixture(scope="module")
def planned() -> tuple[Problem, dict[str, Any]]:
    graph = two_layers().graph("loss:out", loss="loss:out")
    answer = plan(toy_request(graph=graph, topology=DEVICES, setup=Setup(microbatches=1)))
    assert answer.plan is not None
    return problem(graph, DEVICES, Setup(microbatches=1)), answer.plan.to_dict()


def test_an_untouched_plan_is_judged_as_it_was_made(planned):
    built, document = planned
    found = Plan.from_dict(document)
    assert evaluate(built, found) == found.cost


def named(items: list[dict[str, Any]], key: str, name: str) -> dict[str, Any]:
    return next(item for item in items if item[key] == name)


def wrong(stage: dict[str, Any], what: str) -> None:
    ops, tensors, parameters = stage["ops"], stage["tensors"], stage["parameters"]
    first = named(ops, "op", "first")
    rest = named(tensors, "tensor", "first:out")
    match what:
        case "unknown op":
            first["op"] = "zero"
        case "op twice":
            ops.append(dict(first))
        case "op missing":
            ops.remove(first)
        case "unknown factor":
            first["strategy"] = {"q": ["node"]}
        case "unknown axis":
            first["strategy"] = {"b0": ["pod"]}
        case "axis twice":
            first["strategy"] = {"b0": ["node"], "n": ["node"]}
        case "partial sums that cannot pass":
            first["partial"] = {"node": 0}
        case "another strategy, the layout as before":
            first["strategy"] = {}
        case "tensor missing":
            tensors.remove(rest)
        case "tensor unknown":
            rest["tensor"] = "zero"
        case "layout of other sub-dims":
            rest["rest"]["value"]["dims"][0]["parts"] = [{"size": 2}, {"size": 8}]
        case "value and gradient are no pair":
            rest["rest"]["gradient"] = {
                "dims": [{"parts": [{"size": 16}]}, {"parts": [{"size": 8, "axes": ["gpu"]}]}]
            }
        case "no layout for readers":
            rest.pop("read")
        case "parameter missing":
            parameters.remove(named(parameters, "tensor", "w1"))
        case "parameter twice":
            parameters.append(dict(named(parameters, "tensor", "w1")))
        case "no parameter":
            named(parameters, "tensor", "w1")["tensor"] = "x"
        case "parameter in a strange state":
            named(parameters, "tensor", "w1")["optimizer"] = {
                "dims": [{"parts": [{"size": 8}]}, {"parts": [{"size": 8}]}],
                "partial": {"gpu": "sum"},
            }
        case "mesh of another level":
            stage["mesh"]["axes"][0]["level"] = "rack"
        case "mesh of another shape":
            for axis, size in zip(stage["mesh"]["axes"], (4, 1), strict=True):
                axis["size"] = size
        case _:
            raise AssertionError(what)


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("unknown op", "'zero'"),
        ("op twice", "op 'first' is listed twice"),
        ("op missing", "no strategy for op 'first'"),
        ("unknown factor", "op 'first': 'q'"),
        ("unknown axis", "'pod'; its factors are b0, k, n, the axes node, gpu"),
        ("axis twice", "op 'first': an axis is used twice"),
        ("partial sums that cannot pass", "op 'first': no partial sum passes"),
        ("another strategy, the layout as before", "tensor 'first:out' is produced in the state"),
        ("tensor missing", "tensor 'first:out'"),
        ("tensor unknown", "tensor 'zero'"),
        ("layout of other sub-dims", "tensor 'first:out'"),
        ("value and gradient are no pair", "tensor 'first:out'"),
        ("no layout for readers", "tensor 'first:out'"),
        ("parameter missing", "no layout for parameter 'w1'"),
        ("parameter twice", "parameter 'w1' is listed twice"),
        ("no parameter", "'x' is not a parameter"),
        ("parameter in a strange state", "parameter 'w1'"),
        ("mesh of another level", "level 'node'"),
        ("mesh of another shape", "level 'node'"),
    ],
)
def test_a_damaged_plan_is_refused_and_the_damage_named(planned, what, names):
    built, document = planned
    damaged = copy.deepcopy(document)
    wrong(damaged["stages"][0], what)
    with pytest.raises(PlanError) as refused:
        evaluate(built, Plan.from_dict(damaged))
    assert names in refused.value.detail


def test_a_plan_for_something_else_is_refused(planned):
    built, document = planned
    other = two_layers().document("loss:out", loss="loss:out") | {"name": "another"}
    elsewhere = problem(Graph.from_dict(other), DEVICES, Setup(microbatches=1))
    with pytest.raises(PlanError, match="is for graph"):
        evaluate(elsewhere, Plan.from_dict(document))
    with pytest.raises(PlanError, match="is for graph"):
        evaluate(problem(built.graph, topology(4)), Plan.from_dict(document))
    with pytest.raises(PlanError, match="4 microbatches"):
        evaluate(built, Plan.from_dict(document | {"microbatches": 4}))
    with pytest.raises(PlanError, match="2"):
        evaluate(built, Plan.from_dict(document | {"stages": document["stages"] * 2}))


def test_a_layout_whose_axes_do_not_divide_is_no_state():
    # 6 columns over an axis of 4: readable as a layout, but no device could hold a part
    maker = GraphMaker()
    a = maker.op("gelu", [maker.parameter("p", 8, 6)], [8, 6], "a")
    out = maker.op("add", [a, maker.op("gelu", [a], [8, 6], "b")], [8, 6], "c")
    devices, mesh = one_level_mesh(4)
    graph = maker.graph(out)
    found = Models(problem(graph, devices), find_values(problem(graph, devices)), mesh)
    case = Case(found, lower(found, {}, None))
    choice = random_choice(case.lowered.graph, 0)
    assert choice is not None
    document = plan_of(case, choice).to_dict()
    split = {"dims": [{"parts": [{"size": 8}]}, {"parts": [{"size": 6, "axes": ["a0"]}]}]}
    tensor = named(document["stages"][0]["tensors"], "tensor", "a:out")
    tensor["read"] = {"value": split, "gradient": split}
    with pytest.raises(PlanError, match=r"'a:out'.*do not divide it"):
        evaluate(found.problem, Plan.from_dict(document))
