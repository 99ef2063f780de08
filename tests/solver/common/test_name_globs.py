"""Names found through an index are those that fnmatch finds one by one."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from meshwright_solver.common.name_globs import Names, alike

LETTERS = st.text(alphabet="ab.1[]!", max_size=6)
PATTERNS = st.text(alphabet="ab.1[]!*?-", min_size=1, max_size=8)


def one_by_one(names: list[str], pattern: str) -> list[int]:
    return [k for k, name in enumerate(names) if fnmatchcase(name, pattern)]


@settings(max_examples=600, deadline=None)
@given(st.lists(LETTERS, max_size=12), PATTERNS)
@example(["a", "ab", "aba", "a[", "[!]"], "[!]")
@example(["[]", "[]]", "]", "a"], "[]]")
@example(["[a", "a"], "[a")
@example(["a"], "a*a")
@example(["aa", "aa", ""], "**")
@example(["a.1.b", "a.11.b"], "*.1.*")
def test_names_match_as_fnmatch_says(names: list[str], pattern: str) -> None:
    assert sorted(Names(names).matching(pattern)) == one_by_one(names, pattern)


@pytest.mark.parametrize("pattern", ["a\nb", "*\nb*", "*a\n*", "\n", "[\n]", "*\n*"])
def test_no_name_holds_a_newline(pattern: str) -> None:
    assert Names(["a", "b"]).matching(pattern) == []


NAMES = [
    f"model.layers.{layer}.{part}.{op}"
    for layer in range(1000)
    for part in ("self_attn", "mlp")
    for op in (*(f"proj{k}" for k in range(8)), "add", "norm")
]


@pytest.mark.parametrize(
    "shape",
    [
        "model.layers.{k}.mlp.proj1",
        "model.layers.{k}.*",
        "*.{k}.mlp.*",
        "model.layers.{k}.*.proj[0-3]",
        "*layers.{k}.*norm",
    ],
)
def test_of_twenty_thousand_names_a_layers_pattern_is_held_against_its_layer_alone(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = 0
    candidates = Names._candidates

    def counted(names: Names, pattern: str) -> Sequence[str]:
        nonlocal held
        found = candidates(names, pattern)
        held += len(found)
        return found

    monkeypatch.setattr(Names, "_candidates", counted)
    names = Names(NAMES)
    found = [len(names.matching(shape.format(k=k))) for k in range(1000)]
    assert len(NAMES) == 20_000
    assert held <= 1000 * 20
    assert found == [len(one_by_one(NAMES[:20], shape.format(k=0)))] * 1000


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("tabel", "'table'"),
        ("*.qproj", "'layers.0.q_proj'"),
        ("layers.0.qproj", "'layers.0.q_proj', 'layers.1.q_proj'"),
        ("zzz", "'table', 'layers.0.q_proj', 'layers.1.q_proj'"),
        ("*", "'table', 'layers.0.q_proj', 'layers.1.q_proj'"),
    ],
)
def test_who_mistypes_is_shown_what_was_meant(pattern: str, shown: str) -> None:
    names = ["", "table", "layers.0.q_proj", "layers.1.q_proj"]
    assert alike(pattern, names) == shown
