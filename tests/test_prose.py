"""The pages for readers keep the rules of prose."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prose import faults, sentences

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# pages of which older sentences still break a rule; take a page out of this list when it is mended
PENDING = {
    "operations",
    "steering",
}
PAGES = [
    *sorted(ROOT.glob("*.md")),
    DOCS / "index.md",
    DOCS / "explanation" / "accuracy.md",
    DOCS / "explanation" / "decisions.md",
    DOCS / "reference" / "schemas.md",
    DOCS / "reference" / "stability.md",
    DOCS / "reference" / "support.md",
    *sorted((DOCS / "tutorials").glob("*.md")),
    *sorted(page for page in (DOCS / "how-to").glob("*.md") if page.stem not in PENDING),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_keeps_the_rules(page: Path) -> None:
    assert list(faults(page.read_text(encoding="utf-8"))) == []


def test_only_pages_with_faults_are_pending() -> None:
    for name in PENDING:
        text = (DOCS / "how-to" / f"{name}.md").read_text(encoding="utf-8")
        assert list(faults(text)), f"take {name} out of PENDING"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("What fits is planned.", "begin with the noun"),
        ("What fits?", None),
        ("Whoever asks gets a plan.", "begin with the noun"),
        ("The plan fits. Where it does not, the answer says so.", "begin with the noun"),
        ("- Where it does not fit\n", "begin with the noun"),
        ("The layer is done\nagain.", "recomputed"),
        ("`done again` is an option.", None),
        ("```console\nWhat is done again\n```", None),
        ("| What | done again |", None),
        ("# What a plan is\n\nA plan is a document.", None),
        (" ".join(["word"] * 36), "36 words"),
        (" ".join(["word"] * 35), None),
        (" ".join(["word"] * 20) + ". " + " ".join(["Word"] * 20), None),
    ],
)
def test_a_fault_is_named(text: str, rule: str | None) -> None:
    named = list(faults(text))
    assert bool(named) == (rule is not None)
    if rule is not None:
        assert rule in named[0]


def test_a_page_is_cut_into_sentences() -> None:
    text = "One `a.b` and [two](x.md). `c` is three:\nstill three.\n\n- Four; and `e`.\n- Five"
    assert list(sentences(text)) == [
        "One CODE and two.",
        "CODE is three: still three.",
        "Four; and CODE.",
        "Five",
    ]
