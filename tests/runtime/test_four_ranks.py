"""Four processes train under plans, and equal one process to rounding."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.schema import Axis, Pin
from tests.runtime.planned import Run, Wanted, equals_one_process, expected, ran, trained

EVERYWHERE = (Axis("node"), Axis("gpu"))
CASES = (
    Wanted("mixed", "llama", {"dp": 2, "tp": 2, "sequence_parallel": True}),
    Wanted("zero 1", "llama", {"dp": 4, "zero": 1}),
    Wanted("zero 2", "llama", {"dp": 4, "zero": 2}),
    Wanted("zero 3", "llama", {"dp": 4, "zero": 3}),
    Wanted("zero 3, recompute", "llama", {"dp": 4, "zero": 3}, recompute="full"),
    Wanted("fused projections", "gpt", {"dp": 2, "tp": 2}),
    Wanted("experts, recompute", "mixtral", {"dp": 4, "ep": 4}, recompute="full"),
    Wanted(
        "tables cut by rows",
        "wide and deep",
        pins=(
            Pin(op="table", strategy={"v": EVERYWHERE}),
            Pin(op="wide", strategy={"v": EVERYWHERE}),
            Pin(op="deep.*", data_parallel=True),
        ),
    ),
    Wanted(
        "many classes",
        "faces",
        pins=(
            Pin(op="trunk*", data_parallel=True),
            Pin(op="identities", strategy={"n": EVERYWHERE}),
            Pin(op="cross_entropy", strategy={"v": EVERYWHERE}),
        ),
    ),
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, service: str) -> dict[str, Run]:
    folder: Path = tmp_path_factory.mktemp("four")
    return trained(CASES, (2, 2), folder, service)


@pytest.mark.parametrize("name", [wanted.name for wanted in CASES])
def test_losses_and_gradients_are_those_of_one_process(runs: dict[str, Run], name: str) -> None:
    equals_one_process(runs[name])


@pytest.mark.parametrize("name", [wanted.name for wanted in CASES])
def test_the_collectives_that_ran_are_the_plans(runs: dict[str, Run], name: str) -> None:
    run = runs[name]
    assert ran(run.outcome.ran) == expected(run.plan, run.graph)
    assert not run.outcome.fallen_back
