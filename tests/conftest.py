"""The order of the whole suite."""

from __future__ import annotations

from pathlib import Path

import pytest

# What these set up takes minutes. Processes that have nothing left to do take tests from the end of
# what another one has before it: a module that is divided is set up again by each of them.
FIRST = ("runtime", "dashboard")
TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders that share much come first, the others after them; else all stays as it is."""

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(TESTS).parts[0]
        return FIRST.index(folder) if folder in FIRST else len(FIRST)

    items.sort(key=place)
