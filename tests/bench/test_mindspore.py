"""MindSpore's recorded strategies: read, completed and judged; ours is never worse."""

from __future__ import annotations

import json
from functools import cache

import pytest

from bench.mindspore import compared
from bench.mindspore_completion import Placement, complete, fixed
from bench.mindspore_models import mlp
from bench.mindspore_strategies import Recorded, by_level, document, parse_cuts, recorded, ways_of
from costmodel.calibrations import default_calibration
from costmodel.presets import preset
from meshwright.schema import ConversionError, Pin, Request, Setup
from solver.planner import plan
from solver.problem import build_problem

CASES = recorded()
QUICK = [case for case in CASES if case.devices == 8 and case.options.get("layers", 1) == 1]
OPTIONS = {"hidden": 64, "batch": 64, "classes": 32}


def case_of(strategies: dict[str, dict[str, list[str]]], devices: int = 8) -> Recorded:
    return Recorded("mlp", OPTIONS, devices, ("by hand",), strategies)


def linear(product: str, sum_: str) -> dict[str, list[str]]:
    return {"MatMul": [product], "Add": [sum_]}


LOSS = {
    "OneHot": ["(8,1) () ()"],
    "SoftmaxCrossEntropyWithLogits": ["(8,1) (8,1)"],
    "ReduceMean": ["(8)"],
}
DATA_PARALLEL = {
    **{cell: linear("(8,1) (1,1)", "(8,1) (1)") for cell in ("fc1", "fc2", "fc3")},
    "": {"ReLU": ["(8,1)", "(8,1)"]},
    "loss": LOSS,
}
HALVES = {  # two groups of four that repeat each other's work
    **DATA_PARALLEL,
    "fc1": linear("(1,1) (1,2)", "(1,2) (2)"),
    "": {"ReLU": ["(1,2)", "(8,1)"]},
    "fc2": linear("(1,2) (2,1)", "(8,1) (1)"),
}


@cache
def problem():
    return build_problem(mlp(**OPTIONS).graph, preset("910b-1x8"), Setup(), default_calibration())


def ways(name: str, cuts: str) -> dict[str, int]:
    op = problem().op_by_name[name]
    return {
        op.parts[part].name: count
        for part, count in ways_of(problem(), op, parse_cuts(cuts)).items()
    }


def test_cuts_are_ways_of_an_ops_factors() -> None:
    assert parse_cuts("(8,1) () (2)") == ((8, 1), (), (2,))
    assert ways("fc1.matmul", "(2,1) (1,4)") == {"m": 2, "k": 1, "n": 4}
    assert ways("fc2.add", "(2,4) (4)") == {"d0": 2, "d1": 4}
    assert ways("loss.one_hot", "(4,2) () ()") == {"d0": 4, "c": 2}


def test_cuts_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConversionError, match=r"op 'fc1.matmul': 'k' is cut in 2 and 4"):
        ways("fc1.matmul", "(1,4) (2,1)")
    with pytest.raises(ConversionError, match="is not cut into 7 equal parts"):
        ways("fc1.matmul", "(7,1) (1,1)")


def test_devices_are_numbered_along_the_factors() -> None:
    op = problem().op_by_name["fc1.matmul"]
    m, k, n = (next(j for j, part in enumerate(op.parts) if part.name == f) for f in "mkn")
    # 4 nodes of 8: rows first, so over the nodes and in pairs within, columns over the rest
    assert by_level(op, {m: 8, k: 1, n: 2}, [4, 8]) == [{m: 4}, {m: 2, n: 2}]
    assert by_level(op, {m: 2, k: 2, n: 2}, [4, 8]) == [{m: 2, k: 2}, {n: 2}]
    with pytest.raises(ConversionError, match="do not meet"):
        by_level(op, {m: 3, k: 1, n: 2}, [4, 8])


def test_the_judge_says_of_fixed_cuts_what_it_says_of_pins() -> None:
    """Every op on its batch: the planner, with that as pins, comes to the same plan."""
    given = fixed(case_of(DATA_PARALLEL), preset("910b-1x8"))
    found = complete(given, given.cuts)
    factors = {"matmul": "m", "add": "d0", "relu": "d0", "one_hot": "d0", "mean": "d0"}
    factors["softmax_cross_entropy"] = "b0"
    pins = tuple(
        Pin(op=op.name, strategy={factors[op.kind]: ("npu",)})
        for op in given.graph.ops
        if op.kind != "cast"
    )
    answer = plan(Request(graph=given.graph, topology=given.topology, pins=pins))
    assert found is not None
    assert answer.plan is not None
    assert answer.plan.cost.step_ns == pytest.approx(found.step_ns, rel=1e-12)


def test_more_freedom_costs_no_more() -> None:
    topology = preset("910b-2x4")
    given = fixed(case_of(HALVES), topology)
    costs = [
        complete(given, given.cuts, placement=Placement.RANKS),
        complete(given, given.cuts, placement=Placement.BEST),
        complete(given, {}),
    ]
    steps = [cost.step_ns for cost in costs if cost is not None]
    assert len(steps) == 3
    assert steps == sorted(steps, reverse=True)
    # MindSpore repeats on neighbours, so that the halves meet between nodes
    assert steps[1] < steps[0]


def test_what_has_no_counterpart_is_named_and_left_to_the_search() -> None:
    strategies = {
        **DATA_PARALLEL,
        "": {"ReLU": ["(8,1)", "(8,1)"], "Tanh": ["(8,1)"]},
        "fc2": linear("(7,1) (1,1)", "(8,1) (1)"),
        "fc3": {"MatMul": ["(8,1) (1,1)", "(8,1) (1,1)"]},
    }
    given = fixed(case_of(strategies), preset("910b-1x8"))
    said = " ".join(given.dropped)
    assert "/Tanh: 1 of MindSpore's, 0 here" in said
    assert "fc3/MatMul: 2 of MindSpore's, 1 here" in said
    assert "fc3/Add: no strategy of MindSpore's" in said
    assert "op 'fc2.matmul': ((7, 1), (1, 1)) is no strategy of" in said
    assert {"fc2.matmul", "fc3.matmul", "fc3.add"}.isdisjoint(given.cuts)
    assert complete(given, given.cuts) is not None


def test_a_limit_that_nothing_keeps_has_no_answer() -> None:
    given = fixed(case_of(DATA_PARALLEL), preset("910b-1x8"))
    assert complete(given, given.cuts, memory_limit_bytes=1.0) is None


def test_equal_answers_and_equal_layers_are_written_once() -> None:
    def row(mode: str, cut: int) -> str:
        names = {f"Default/net-Gpt/blocks-CellList/{k}-Block/GeLU-op0": [[8, 1]] for k in (0, 1)}
        names["Default/net-Gpt/blocks-CellList/2-Block/GeLU-op0"] = [[cut, 1]]
        names["Default/_VirtualDataset-op0"] = [[1]]
        fields = {"layers": 3, "hidden": 64, "batch": 64, "seq": 64, "device_num": 8}
        more = {"heads": 4, "vocab": 512}
        given = {**fields, "dataset": "full", "search_mode": mode, "options": more, "model": "gpt"}
        return json.dumps({**given, "strategies": names})

    made = document([row("recursive_programming", 4), row("dynamic_programming", 4)], {})
    (case,) = made["cases"]
    assert case["found_by"] == ["recursive, whole batch", "dynamic, whole batch"]
    assert case["strategies"] == {
        "blocks.0-1": {"GeLU": ["(8,1)"]},
        "blocks.2": {"GeLU": ["(4,1)"]},
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} on {case.devices}")
def test_every_operator_of_a_recorded_case_is_one_of_ours(case: Recorded) -> None:
    twin = case.twin()
    cuts, wrong = case.cuts(twin)
    assert wrong == []
    ranks = {tensor.name: len(tensor.shape) for tensor in twin.graph.tensors}
    for op in twin.graph.ops:
        if op.name in cuts and op.kind != "one_hot":
            counts = [len(own) for own in cuts[op.name]]
            assert counts == [ranks[name] for name in op.inputs], op.name


@pytest.mark.parametrize("case", QUICK, ids=lambda case: f"{case.name}: {case.found_by[0]}")
def test_ours_is_never_worse(case: Recorded) -> None:
    row = compared(case)
    assert row.given.dropped == ()
    assert row.ranked is not None
    assert row.ours.step_ns <= row.theirs.step_ns * (1 + 1e-9)
    assert row.theirs.step_ns <= row.ranked.step_ns * (1 + 1e-9)
    if row.theirs_fitting is not None:
        assert row.ours_fitting is not None
        assert row.ours_fitting.step_ns <= row.theirs_fitting.step_ns * (1 + 1e-9)
