"""Conflicts between seeds: who, on which way, at which tensor, and what it costs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.schema import Pin
from meshwright_solver.constraints.pin_filters import pin_filters
from meshwright_solver.constraints.pins import exactly, pinned_ops
from meshwright_solver.stage.heuristics.propagation.inputs import Propagation
from meshwright_solver.stage.heuristics.propagation.sharding_propagation import sharding_propagation
from meshwright_solver.strategies.mesh_models import Models
from tests.solver.completions import completed_plan
from tests.solver.random_problems import Case, cases
from tests.solver.small_graphs import GraphMaker, models


def chain(layers: int = 4) -> Models:
    """Square matrix products one behind the other."""
    maker = GraphMaker(batch=512)
    x = maker.input("x", "batch", 512)
    for k in range(layers):
        weight = maker.parameter(f"w{k}", 512, 512)
        x = maker.op("linear", [x, weight], ["batch", 512], f"fc{k}")
    loss = maker.op("mean", [x], [], "loss", attrs={"dims": [0, 1]})
    return models(maker.graph(loss, loss=loss), (4,))


def answer(found: Models, **strategies: dict[str, tuple[str, ...]]) -> Propagation:
    pins = [Pin(op=op, strategy=own) for op, own in strategies.items()]
    pinned = pinned_ops(found.problem, pins, found.values.views)
    return sharding_propagation(
        found, pin_filters(found.problem, pinned, values=found.values, mesh=found.mesh)
    )


ROWS = {"b0": ("a0",)}
COLUMNS = {"n": ("a0",)}
SUMMED = {"k": ("a0",)}


def test_strategies_that_go_together_are_no_conflict():
    found = chain()
    assert answer(found).conflicts == ()
    assert answer(found, fc0=ROWS).conflicts == ()
    assert answer(found, fc0=ROWS, fc3=ROWS).conflicts == ()
    assert answer(found, fc1=COLUMNS, fc2=SUMMED).conflicts == ()


def test_rows_into_columns_have_to_be_gathered_and_it_is_said_where():
    found = chain()
    (conflict,) = answer(found, fc1=ROWS, fc2=COLUMNS).conflicts
    assert (conflict.first, conflict.second) == ("fc1", "fc2")
    assert conflict.path == ("fc1", "fc2")
    assert conflict.tensor == "fc1:out"
    assert [str(layout) for layout in conflict.layouts] == ["[512@a0, 512]", "[512, 512]"]
    for part in ("'fc1'", "'fc2'", "fc1 -> fc2", "[512@a0, 512] to [512, 512]"):
        assert part in str(conflict)


def test_what_a_conflict_costs_is_what_the_plan_pays_there():
    found = chain()
    own = answer(found, fc1=ROWS, fc2=COLUMNS)
    (conflict,) = own.conflicts
    plan = completed_plan(found, own.strategies)
    paid = [r.ns for r in plan.stages[0].redistributions if r.tensor == "fc1:out"]
    exposed = found.problem.calibration.exposed.activation
    assert conflict.redistribution_ns == pytest.approx(sum(paid) * exposed, rel=1e-9)


def test_far_seeds_meet_somewhere_on_the_way():
    found = chain(6)
    (conflict,) = answer(found, fc0=ROWS, fc5=COLUMNS).conflicts
    assert conflict.path == tuple(f"fc{k}" for k in range(6))
    assert conflict.tensor in {f"fc{k}:out" for k in range(5)}


def test_of_several_seeds_only_those_that_clash_are_named():
    found = chain(6)
    conflicts = answer(found, fc0=ROWS, fc2=ROWS, fc4=COLUMNS).conflicts
    assert [(own.first, own.second) for own in conflicts] == [("fc2", "fc4")]


def test_a_conflict_lies_where_values_move_and_not_where_only_gradients_do():
    """Attention over three views of one value: some of their gradients are partial sums.

    Reducing these may cost more than the way's only gather, but leaves the value where it is.
    """
    maker = GraphMaker(batch=16)
    x = maker.op(
        "linear", [maker.input("x", "batch", 8), maker.parameter("w", 8, 8)], ["batch", 8], "first"
    )
    for name in ("near", "far"):
        views = [maker.op("reshape", [x], [1, 2, "batch", 4]) for _ in range(3)]
        mixed = maker.op("attention", views, [1, 2, "batch", 4], name, attrs={"causal": True})
        x = maker.op("reshape", [mixed], ["batch", 8])
    loss = maker.op("mean", [x], [], "loss", attrs={"dims": [0, 1]})
    found = models(maker.graph(loss, loss=loss), (2,))
    at = {op.name: p for p, op in enumerate(found.problem.ops)}
    ends = at["first"], at["far"]
    count = 0
    for first, far in product(*(found.ops.model(p).choices for p in ends)):
        seeds = dict(zip(ends, (exactly(first), exactly(far)), strict=True))
        for own in sharding_propagation(found, seeds).conflicts:
            assert own.layouts[0] != own.layouts[1]
            count += 1
    assert count > 10


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_a_reported_conflict_is_one(case: Case, seed: int):
    """Its way is a way in the graph, its layouts differ, and both seeds are at its ends."""
    found = case.models
    random = np.random.default_rng(seed)
    planned = [p for p in range(len(found.problem.ops)) if p not in found.values.views]
    chosen = sorted(random.permutation(planned)[:3].tolist())
    seeds = {p: exactly(random.choice(found.ops.model(p).choices)) for p in chosen}
    ops = {op.name: op for op in found.problem.ops}
    roots = {
        name: {found.values.value_of[p.tensor].root for p in (*op.inputs, *op.outputs)}
        for name, op in ops.items()
    }
    for own in sharding_propagation(found, seeds).conflicts:
        names = [found.problem.ops[p].name for p in chosen]
        assert {own.first, own.second} <= set(names)
        assert (own.path[0], own.path[-1]) == (own.first, own.second)
        assert all(roots[a] & roots[b] for a, b in zip(own.path, own.path[1:], strict=False))
        assert any(found.values.value_of[own.tensor].root in roots[name] for name in own.path)
        assert own.layouts[0] != own.layouts[1]
        assert own.redistribution_ns > 0
        assert own.extra_ns > 0


def test_extra_is_what_both_need_beyond_each_alone():
    """Between neighbours one table says it: layouts made, layouts needed."""
    found = chain(3)
    (conflict,) = answer(found, fc0=ROWS, fc1=COLUMNS).conflicts
    first, second = found.ops.model(0), found.ops.model(1)
    space = found.ops.space("fc0:out")
    moves = found.redistributions(space)
    made = space.index(first.made(first.choices, 0))
    needed = space.index(second.required(second.choices, 0))
    table = moves.forward_ns(made[:, None], needed[None, :])
    rows = first.choices[:, 0] == 0
    columns = second.choices[:, 0] == 2
    assert rows.sum() == columns.sum() == 1
    both = table[rows][:, columns].min()
    extra = both - table[rows].min() - table[:, columns].min() + table.min()
    exposed = found.problem.calibration.exposed.activation
    assert conflict.extra_ns == pytest.approx(extra * exposed, rel=1e-9)
