"""docs/reference/operators.md says what the rules are."""

from __future__ import annotations

from pathlib import Path

from meshwright_solver.rules import KINDS
from meshwright_solver.rules.mindspore import OPERATORS
from tests.test_docs import script

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_page_of_operators_is_current_and_complete() -> None:
    published = (DOCS / "reference" / "operators.md").read_text(encoding="utf-8")
    assert published == script(DOCS / "generate_operators.py").text(), "run: make schema"
    for kind in KINDS:
        assert f"| `{kind}` |" in published
    for name in OPERATORS:
        assert name in published
