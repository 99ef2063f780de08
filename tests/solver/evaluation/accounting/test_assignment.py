"""Assignments go to plan documents and back without loss."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meshwright.schema import Plan, PlanError, Setup
from meshwright_solver.evaluation.accounting.assignment import (
    assignment_of_choice,
    codes_of,
    pair_of,
)
from meshwright_solver.evaluation.accounting.assignment_of_plan import assignment_of_stage
from tests.solver.random_problems import Case, cases, plan_of, random_choice
from tests.solver.small_graphs import GraphMaker, models, state


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 2**32 - 1))
def test_an_assignment_is_read_back_from_its_document(case: Case, seed: int):
    choice = random_choice(case.lowered.graph, seed)
    assume(choice is not None)
    written = assignment_of_choice(case.lowered, choice)
    document = Plan.from_json(plan_of(case, choice).to_json())
    read = assignment_of_stage(case.models, document.stages[0])
    assert dict(read.ops) == dict(written.ops)
    assert dict(read.rest) == dict(written.rest)
    assert dict(read.parameters) == dict(written.parameters)
    assert {root: own.codes for root, own in read.read.items()} == {
        root: own.codes for root, own in written.read.items()
    }


@settings(max_examples=60, deadline=None)
@given(cases())
def test_every_state_has_a_pair_of_layouts_of_its_own(case: Case):
    for value in case.models.values.values:
        if value.is_free:
            continue
        space = case.models.ops.space(value.root)
        pairs = set()
        for row in space.states.tolist():
            pair = pair_of(case.models, value, tuple(row))
            assert codes_of(case.models, value, pair) == tuple(row)
            pairs.add(pair.model_dump_json())
            local = pair.value.local_shape(case.models.mesh)
            size = case.models.problem.tensors[value.root]
            share = size.bytes // max(1, size.elements)
            expected = share
            for extent in local:
                expected *= extent
            assert space.local_bytes(space.states)[len(pairs) - 1] == expected
        assert len(pairs) == len(space.states)


def activation(*shape: int):
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", *shape)], shape, "x")
    maker.op("gelu", [x], shape, "y")
    return models(maker.graph("y:out"), (2, 2), Setup())


def test_the_four_states_are_the_layouts_of_the_vocabulary():
    found = activation(8, 6)
    value = found.values.value_of["x:out"]
    split = pair_of(found, value, state(found, "x:out", {"a0": 0, "a1": 1}))
    assert str(split.value) == str(split.gradient) == "[8@a0, 6@a1]"
    mixed = pair_of(found, value, state(found, "x:out", {"a0": "P", "a1": "V"}))
    assert str(mixed.value) == "[8, 6] +sum@a0"
    assert str(mixed.gradient) == "[8, 6] +sum@a1"
    both = pair_of(found, value, state(found, "x:out", {"a0": 0, "a1": 0}))
    assert str(both.value) == "[8@a0@a1, 6]"


@pytest.mark.parametrize(
    ("value", "gradient"),
    [
        ({"a0": 0}, {"a1": 0}),  # split differently
        ({"a0": "P"}, {"a0": 0}),  # partial and split
        ({"a0": 0}, {}),  # split and whole
    ],
)
def test_layouts_that_are_no_state_are_refused_and_the_tensor_named(value, gradient):
    found = activation(8, 6)
    own = found.values.value_of["x:out"]
    pair = pair_of(found, own, state(found, "x:out", value))
    other = pair_of(found, own, state(found, "x:out", gradient)).gradient
    with pytest.raises(PlanError, match="tensor 'x:out'"):
        codes_of(found, own, pair.model_copy(update={"gradient": other}))
