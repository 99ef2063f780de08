"""The links between Markdown pages lead to files and headings that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LISTED = subprocess.check_output(
    ["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, text=True
)
PAGES = [ROOT / name for name in LISTED.splitlines() if (ROOT / name).is_file()]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), target
        if anchor and goal.suffix == ".md":
            assert anchor in anchors_of(goal), target


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    docs = ROOT / "docs"
    linked = {
        (docs / target.partition("#")[0]).resolve()
        for target in LINK.findall((docs / "index.md").read_text(encoding="utf-8"))
    }
    pages = {page for page in PAGES if page.is_relative_to(docs)} - {docs / "index.md"}
    assert pages - linked == set()


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
