"""schemathesis over the whole OpenAPI document, against a server in a process of its own: some
hundred cases; `python -m bench.fuzz` has thousands."""

from __future__ import annotations

from pathlib import Path

from bench.fuzz import fuzz


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    store, phases = f"sqlite:///{tmp_path / 'meshwright.db'}", ("examples", "fuzzing")
    assert fuzz(store, tmp_path, examples=3, seed=1, phases=phases) == 0
