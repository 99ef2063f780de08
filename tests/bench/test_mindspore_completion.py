"""What is left open beside MindSpore's cuts is completed, and no cut is dropped in silence."""

from __future__ import annotations

import pytest

from bench.mindspore_completion import Placement, complete, fixed
from meshwright.schema import Budget, Pin
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from tests.bench.mindspore_cases import DATA_PARALLEL, HALVES, case_of
from tests.one_stage import one_stage_request


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
    cheapest = Budget(simplicity=0.0)
    answer = plan(
        one_stage_request(graph=given.graph, topology=given.topology, pins=pins, budget=cheapest)
    )
    assert found is not None
    assert answer.plan is not None
    assert answer.plan.cost.objective_ns == pytest.approx(found.objective_ns, rel=1e-12)


def test_more_freedom_costs_no_more() -> None:
    given = fixed(case_of(HALVES), preset("910b-2x4"))
    costs = [
        complete(given, given.cuts, placement=Placement.RANKS),
        complete(given, given.cuts, placement=Placement.BEST),
        complete(given, {}),
    ]
    steps = [cost.objective_ns for cost in costs if cost is not None]
    assert len(steps) == 3
    assert steps == sorted(steps, reverse=True)
    # MindSpore repeats on neighbours, so that the halves meet between nodes
    assert steps[1] < steps[0]


def test_what_has_no_counterpart_is_named_and_left_to_the_search() -> None:
    strategies = {**DATA_PARALLEL, "fc4.matmul": "(8,1) (1,1)", "fc2.matmul": "(7,1) (1,1)"}
    given = fixed(case_of(strategies), preset("910b-1x8"))
    assert given.dropped == (
        "there is no op 'fc4.matmul'",
        "op 'fc2.matmul': ((7, 1), (1, 1)) is no strategy of 'm k, k n -> m n'",
    )
    assert "fc2.matmul" not in given.cuts
    assert complete(given, given.cuts) is not None


def test_a_limit_that_nothing_keeps_has_no_answer() -> None:
    given = fixed(case_of(DATA_PARALLEL), preset("910b-1x8"))
    assert complete(given, given.cuts, memory_limit_bytes=1.0) is None


def test_a_batch_too_small_for_the_cuts_has_no_answer() -> None:
    given = fixed(case_of(DATA_PARALLEL), preset("910b-1x8"))
    assert complete(given, given.cuts, microbatches=8) is not None  # 8 samples on 8 devices
    assert complete(given, given.cuts, microbatches=16) is None
