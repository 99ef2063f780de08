"""schemathesis over the whole OpenAPI document, against a server in a process of its own: some
hundred cases; `python -m bench.fuzz` has thousands."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.fuzz import fuzz


@pytest.mark.parametrize("examples", [1, pytest.param(3, marks=pytest.mark.long)])
def test_schemathesis_finds_nothing(tmp_path: Path, examples: int) -> None:
    store, phases = f"sqlite:///{tmp_path / 'meshwright.db'}", ("examples", "fuzzing")
    assert fuzz(store, tmp_path, examples=examples, seed=1, phases=phases) == 0
