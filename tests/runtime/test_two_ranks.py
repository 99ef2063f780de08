"""Two processes train under plans, and equal one process to rounding; the example of the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.runtime.planned import Run, Wanted, equals_one_process, expected, ran, trained

DOCS = Path(__file__).parents[2] / "docs" / "runtime.md"
CASES = (
    Wanted("data parallel", "llama", {"dp": 2}),
    Wanted("tensor parallel", "llama", {"tp": 2}),
    Wanted("sequence parallel", "llama", {"tp": 2, "sequence_parallel": True}),
    Wanted("ring attention", "llama", {"cp": 2}),
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder: Path = tmp_path_factory.mktemp("two")
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len(example.split("\n\n")[-1].splitlines()) < 10
    return trained(CASES, (2,), folder, example)


@pytest.mark.parametrize("name", [wanted.name for wanted in CASES])
def test_losses_and_gradients_are_those_of_one_process(runs: dict[str, Run], name: str) -> None:
    equals_one_process(runs[name])


@pytest.mark.parametrize("name", [wanted.name for wanted in CASES])
def test_the_collectives_that_ran_are_the_plans(runs: dict[str, Run], name: str) -> None:
    run = runs[name]
    assert ran(run.outcome.ran) == expected(run.plan, run.graph)


def test_what_falls_back_is_said(runs: dict[str, Run]) -> None:
    fallen = {name: set(run.outcome.fallen_back) for name, run in runs.items()}
    attention = {"layers.0.attention", "layers.1.attention"}
    assert fallen == {**{name: set() for name in fallen}, "ring attention": attention}
