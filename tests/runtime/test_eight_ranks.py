"""Eight processes train under plans of three axes, and equal one process to rounding."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.schema import Pipeline
from tests.runtime.planned import FEW, Run, Wanted, equals_one_process, runs_as_planned, trained

CASES = (
    Wanted("mixed", "llama", {"dp": 4, "tp": 2, "sequence_parallel": True}),
    Wanted(
        "stages, mixed, zero 2",
        "llama",
        {"dp": 2, "tp": 2, "zero": 2},
        microbatches=4,
        pipeline=Pipeline(ranks=2, schedule="interleaved_1f1b", stages_per_rank=2),
        steps=FEW,
    ),
    Wanted(
        "stages, shared table, zero 3",
        "gpt",
        {"dp": 2, "tp": 2, "zero": 3},
        microbatches=4,
        pipeline=Pipeline(ranks=2, schedule="1f1b"),
        steps=FEW,
    ),
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, service: str) -> dict[str, Run]:
    folder: Path = tmp_path_factory.mktemp("eight")
    return trained(CASES, (2, 2, 2), folder, service)


@pytest.mark.parametrize("name", [wanted.name for wanted in CASES])
def test_it_equals_one_process_by_the_plans_collectives(runs: dict[str, Run], name: str) -> None:
    run = runs[name]
    equals_one_process(run)
    runs_as_planned(run)
    assert not run.outcome.fallen_back


def test_what_pytorch_has_no_placements_for_stays_plain(runs: dict[str, Run]) -> None:
    plain = {name: run.outcome.why_plain for name, run in runs.items() if run.outcome.why_plain}
    assert plain.keys() == {"stages, shared table, zero 3"}
    assert plain.popitem()[1].startswith("layers.0.fused.weight: several axes cut inside")
