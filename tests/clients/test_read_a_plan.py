"""docs/how-to/read-a-plan.md explains every row of a plan's summary."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from meshwright.schema import MemoryUse

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "read-a-plan.md").read_text(encoding="utf-8")
RENDER = ROOT / "clients" / "meshwright" / "render"
MODULES = ("summary", "pipeline", "parallel_shares", "recompute", "wishes")


@pytest.mark.parametrize("module", MODULES)
def test_every_row_of_a_summary_is_explained(module: str) -> None:
    source = (RENDER / f"{module}.py").read_text(encoding="utf-8")
    name = r'(?:"" if place else )?"([a-z]+)"(?: if not place else "")?,'
    rows = re.findall(r"(?:yield|return) \(?\s*" + name, source)
    rows += re.findall(r'label = "([a-z]+)"', source)
    assert rows
    assert [row for row in rows if f"| `{row}` |" not in PAGE] == []


def test_every_part_of_memory_is_explained() -> None:
    table = PAGE[PAGE.index("Parts of `memory`") :]
    others = {"capacity", "host", "host_capacity", "moment", "total"}
    parts = set(MemoryUse.model_fields) - others
    assert {"parameters", "working", "reserved"} <= parts
    assert [part for part in sorted(parts) if f"`{part}`" not in table] == []
