"""Which operators of MindSpore capture knows; capture itself runs in `make test-mindspore`."""

from __future__ import annotations

import re
from pathlib import Path

from meshwright.capture.mindspore.operators import ALIASES, COLLECTIVES, CONVERTERS
from meshwright.capture.mindspore.rules import PRODUCTS, RULES, merged_dim
from meshwright.capture.program import Value
from meshwright_solver.rules.mindspore import OPERATORS
from tests.mindspore.cases import MODELS, graph_of

DOCS = (Path(__file__).parents[2] / "docs" / "how-to" / "mindspore.md").read_text()


def test_the_docs_name_every_operator_that_is_known() -> None:
    table = [line for line in DOCS.splitlines() if line.startswith("| ")]
    named = {name for line in table for name in re.findall(r"\w+", line.split(" | ")[0])}
    assert set(CONVERTERS) <= named


def test_rules_and_converters_speak_of_operators_that_mindspore_has() -> None:
    assert not set(CONVERTERS) - set(OPERATORS)
    assert set(RULES) | PRODUCTS <= set(CONVERTERS)
    assert not (ALIASES | COLLECTIVES) & set(CONVERTERS)


def test_kinds_are_those_of_the_table_of_operators() -> None:
    kinds = {op.kind for model in MODELS for op in graph_of(model).ops}
    assert kinds <= {own.kind for own in OPERATORS.values()}


def test_a_reshape_that_puts_dims_together_is_seen() -> None:
    def value(*shape: int) -> Value:
        return Value("", shape, "float16")

    assert merged_dim(value(64, 39, 80), value(64, 3120)) == (39, 80)
    assert merged_dim(value(8, 16, 2, 64), value(128, 128)) == (2, 64)
    assert merged_dim(value(64, 3120), value(64, 39, 80)) == ()
