"""The tables of docs/reference/coverage.md as rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "reference" / "coverage.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Row:
    """One ability: its command may be several, joined by `&&`, its tests are `path::name`."""

    table: str
    number: int
    ability: str
    source: str
    command: str
    tests: tuple[str, ...]
    status: str

    @property
    def id(self) -> str:
        """The name of the row in a test report."""
        return f"{self.table} {self.number}"


def rows() -> list[Row]:
    """The rows of the page, table by table."""
    found = []
    for section in PAGE.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        for line in re.findall(r"^\| \d+ \|.*$", section, re.MULTILINE):
            number, ability, source, command, test, status = line.strip("| ").split(" | ")
            tests = tuple(re.findall(r"`([^`]+)`", test))
            found.append(
                Row(title, int(number), ability, source, command.strip("`"), tests, status)
            )
    return found


def documents() -> dict[str, str]:
    """The letters of the page and the titles that they stand for."""
    return dict(re.findall(r"^\| ([A-Z]) \| (.+) \|$", PAGE, re.MULTILINE))
