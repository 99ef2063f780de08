"""Eight processes train under plans of three axes, and equal one process to rounding."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.planned import Run, Wanted, equals_one_process, expected, ran, trained

CASES = (Wanted("mixed", "llama", {"dp": 4, "tp": 2, "sequence_parallel": True}),)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, service: str) -> dict[str, Run]:
    folder: Path = tmp_path_factory.mktemp("eight")
    return trained(CASES, (2, 2, 2), folder, service)


@pytest.mark.parametrize("name", [wanted.name for wanted in CASES])
def test_it_equals_one_process_by_the_plans_collectives(runs: dict[str, Run], name: str) -> None:
    run = runs[name]
    equals_one_process(run)
    assert ran(run.outcome.ran) == expected(run.plan, run.graph)
    assert not run.outcome.fallen_back
