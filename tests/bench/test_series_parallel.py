"""Random series-parallel graphs keep what they promise, and pass every stage but the search."""

from __future__ import annotations

import pytest

from bench.robustness import AFTER, BEFORE, Staged, node_by_node, stages
from bench.series_parallel import series_parallel
from meshwright.schema import Setup
from meshwright_solver.evaluation.evaluate import evaluate


@pytest.mark.parametrize("ops", [1, 2, 3, 10, 500])
def test_a_graph_has_its_ops_few_shapes_and_few_inputs(ops):
    graph = series_parallel(ops, seed=ops)
    assert len(graph.ops) == ops
    assert max(len(op.inputs) for op in graph.ops) <= 2
    assert {len(tensor.shape) for tensor in graph.tensors} <= {2, 3}
    assert len({tensor.shape for tensor in graph.tensors}) <= 64


def test_a_graph_is_series_parallel():
    # a single edge is left when chains are shortened and edges side by side are joined
    graph = series_parallel(400, seed=3)
    made = {op.outputs[0]: k for k, op in enumerate(graph.ops)}
    weights = {t.name for t in graph.tensors if t.role == "parameter"}
    after: dict[int, set[int]] = {-1: set()}
    before: dict[int, set[int]] = {}
    for k, op in enumerate(graph.ops):
        before[k] = {made.get(name, -1) for name in op.inputs if name not in weights}
        after.setdefault(k, set())
        for source in before[k]:
            after[source].add(k)
    changed = True
    while changed:
        changed = False
        for k in list(before):
            if len(before[k]) == 1 and len(after[k]) == 1:
                (source,), (target,) = before.pop(k), after.pop(k)
                after[source].remove(k)
                after[source].add(target)
                before[target].remove(k)
                before[target].add(source)
                changed = True
    assert list(before) == [399]
    assert before[399] == {-1}


def test_equal_sizes_and_seeds_make_equal_graphs():
    assert series_parallel(60, seed=1).id == series_parallel(60, seed=1).id
    assert series_parallel(60, seed=1).id != series_parallel(60, seed=2).id


def test_every_stage_is_timed_and_every_op_becomes_a_node():
    seconds, lowered = stages(series_parallel(60).to_json(), Setup())
    assert tuple(seconds) == BEFORE
    assert len(lowered.op_node) == 60
    assert len(lowered.rest_node) == 60


def test_a_choice_made_node_by_node_becomes_a_plan_that_costs_what_evaluate_says():
    graph, staged = series_parallel(60), Staged()
    unfolding = staged.before(graph.to_json(), Setup())
    plan = staged.after(unfolding, node_by_node(unfolding.lowered))
    assert tuple(staged.seconds) == (*BEFORE, *AFTER)
    assert {own.op for own in plan.stages[0].ops} == {op.name for op in graph.ops}
    assert evaluate(unfolding.lowered.models.problem, plan) == plan.cost
    assert plan.search.found_by == "chosen"
