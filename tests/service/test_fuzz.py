"""schemathesis over the whole OpenAPI document, against a server in a process of its own."""

from __future__ import annotations

from pathlib import Path

from bench.fuzz import fuzz


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    assert fuzz(f"sqlite:///{tmp_path / 'meshwright.db'}", tmp_path, examples=1, seed=1) == 0
