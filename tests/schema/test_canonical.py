"""Canonical JSON: one text for one content, and ids made from it."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.schema import Graph, InvalidInput, Setup
from meshwright.schema.canonical import canonical_json, digest


def test_keys_are_sorted_and_nothing_is_spaced():
    assert canonical_json({"b": [1, 2], "a": {"d": None, "c": True}}) == (
        '{"a":{"c":true,"d":null},"b":[1,2]}'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"), (-0.0, "0"), (0.1, "0.1"), (1e16, "1e+16"), (2.0**53, "9007199254740992.0"),
        (10**30, "1" + "0" * 30), (-5, "-5"), ("é", '"é"'), ("e\u0301", '"é"'),
        ("\u2028", '"\u2028"'), ((1, 2), "[1,2]"),
    ],
)  # fmt: skip
def test_equal_numbers_and_texts_are_written_alike(value, text):
    assert canonical_json(value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, {1, 2}, b"x", object(), "\ud800"])
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises(InvalidInput):
        canonical_json({"a": [value]})


def test_nesting_has_an_end():
    deep: object = 1
    for _ in range(64):
        deep = [deep]
    assert canonical_json(deep)
    with pytest.raises(InvalidInput, match="nested deeper than 64"):
        canonical_json([deep])
    with pytest.raises(InvalidInput, match="nested deeper than 64"):
        canonical_json(deep, depth=1)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abcé"), inner),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(values)
def test_the_canonical_text_is_json_and_its_own_canonical_text(value):
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text


def test_an_id_does_not_depend_on_order_or_on_how_numbers_are_written():
    assert digest("x", {"a": 1, "b": 2.0}) == digest("x", {"b": 2, "a": 1.0})
    assert digest("x", {"a": 1}) != digest("y", {"a": 1})
    assert digest("x", {"a": 1}) != digest("x", {"a": "1"})


def test_a_document_keeps_its_id_through_json():
    graph = Graph.from_dict(
        {
            "outputs": ["x"],
            "tensors": [{"role": "input", "shape": [8.0], "dtype": "float32", "name": "x"}],
            "ops": [],
        }
    )
    again = Graph.from_json(graph.to_json())
    assert again.id == graph.id == Graph.from_json(graph.to_json().encode()).id
    assert graph.id.startswith("graph_")
    assert len(graph.id) == len("graph_") + 64


def test_fields_at_their_default_do_not_change_an_id():
    assert Setup().id == Setup(phase="training", memory_reserve=0.1).id == Setup.from_dict({}).id
    assert Setup(memory_reserve=0.2).id != Setup().id
