"""The commands of the README and of the tutorials print what the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.console import ROOT, commands_of, matches, present, rewritten, run_page

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_the_commands_of_a_page_print_what_it_shows(page: Path) -> None:
    results = run_page(page.read_text(encoding="utf-8"))
    assert results
    problems = [result.problem for result in results if result.problem]
    assert problems == [], "\n\n".join(problems) + f"\n\npython -m tests.console --write {page}"


PAGE = """
Save it as `one.txt`:

```text
first 12:00
```

```console
$ cat one.txt \\
    one.txt
first …
...
$ false
$ echo gone; echo plan_0123456789abcdef
kept
plan_0123…
$ sleep 60 &
```
"""


def test_a_page_is_read_run_and_written() -> None:
    texts = [command.text for command in commands_of(PAGE)]
    assert texts == ["cat one.txt \\\n    one.txt", "false", texts[2], "sleep 60 &"]
    cat, failed, wrong, background = run_page(PAGE)
    assert cat.problem is None
    assert cat.lines == ("first 12:00", "first 12:00")
    assert failed.problem is not None
    assert "ends with 1" in failed.problem
    assert wrong.problem is not None
    assert "-kept\n+gone" in wrong.problem
    assert background.problem is None
    page = rewritten(PAGE, [cat, failed, wrong, background])
    assert page == PAGE.replace("kept\nplan_0123…", "gone\nplan_0123…")


@pytest.mark.parametrize(
    ("shown", "lines", "same"),
    [
        (["a", "...", "d"], ["a", "b", "c", "d"], True),
        (["a", "...", "d"], ["a", "d"], True),
        (["a", "...", "d"], ["a", "b"], False),
        (["a b…"], ["a b c"], True),
        (["a (b) 1…"], ["a (b) 2"], False),
        (["graph_12ab…, 3 ops"], ["graph_12ab34cd56ef78, 3 ops"], True),
        (["graph_12ab…, 3 ops"], ["graph_12ab34cd56ef78, 4 ops"], False),
        (["after 3 ms"], ["after 1.25 s"], True),
        (["step 3 ms"], ["step 4 ms"], False),
        (["at 2026-11-28T10:00:00Z"], ["at 2025-01-02T03:04:05.678Z"], True),
        ([], ["a"], False),
    ],
)
def test_shown_lines_match(shown: list[str], lines: list[str], *, same: bool) -> None:
    assert matches(shown, lines) == same


def test_a_shortened_output_keeps_its_lines_when_it_is_written() -> None:
    shown = ["Plan x", "memory  1 GiB", "...", "bound  3 ms"]
    lines = ["Plan x", "memory  2 GiB", "more", "ops  linear", "bound  4 ms", "end"]
    assert present(shown, lines) == ["Plan x", "memory  2 GiB", "...", "bound  4 ms"]
