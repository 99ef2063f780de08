"""Four processes train under plans, and equal one process to rounding."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshwright.schema import Axis, Pin, Pipeline
from tests.capture.rotation import rotating, values_of_session
from tests.runtime.planned import FEW, Run, Wanted, equals_one_process, runs_as_planned, trained

EVERYWHERE = (Axis("node"), Axis("gpu"))
CASES = (
    Wanted("mixed", "llama", {"dp": 2, "tp": 2, "sequence_parallel": True}),
    Wanted("zero 1", "llama", {"dp": 4, "zero": 1}, steps=FEW),
    Wanted("zero 2", "llama", {"dp": 4, "zero": 2}, steps=FEW),
    Wanted("zero 3", "llama", {"dp": 4, "zero": 3}),
    Wanted("zero 3, recompute", "llama", {"dp": 4, "zero": 3}, recompute="full", steps=FEW),
    Wanted("fused projections", "gpt", {"dp": 2, "tp": 2}),
    Wanted("experts, recompute", "mixtral", {"dp": 4, "ep": 4}, recompute="full"),
    Wanted("all tokens at one expert", "one expert", {"dp": 4, "ep": 4}, steps=FEW),
    Wanted(
        "one expert, tensor parallel, recompute",
        "one expert",
        {"dp": 2, "tp": 2, "ep": 2},
        recompute="full",
        steps=FEW,
    ),
    Wanted(
        "one expert, backward passes in two",
        "one expert",
        {"dp": 2, "ep": 2},
        microbatches=4,
        recompute="full",
        pipeline=Pipeline(ranks=2, schedule="zb_h1"),
        steps=FEW,
    ),
    Wanted(
        "tables cut by rows",
        "wide and deep",
        pins=(
            Pin(op="table", strategy={"v": EVERYWHERE}),
            Pin(op="wide", strategy={"v": EVERYWHERE}),
            Pin(op="deep.*", data_parallel=True),
        ),
    ),
    Wanted("region of two", "region of two", steps=FEW),
    Wanted("region of four", "region of four", steps=FEW),
    Wanted(
        "stated outputs",
        "wide and deep",
        pins=(
            Pin(op="table", inputs=((4, 1), (1, 1)), outputs=((4, 1, 1),)),
            Pin(op="deep.0", inputs=((2, 2), (1, 2), (1,)), outputs=((4, 1),)),
        ),
        steps=FEW,
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
    Wanted(
        "stages, tensor parallel",
        "llama",
        {"tp": 2, "sequence_parallel": True},
        microbatches=4,
        pipeline=Pipeline(ranks=2, schedule="1f1b"),
    ),
    Wanted(
        "stages, zero 3, recompute",
        "llama",
        {"dp": 2, "zero": 3},
        microbatches=4,
        recompute="full",
        pipeline=Pipeline(ranks=2, schedule="1f1b"),
        steps=FEW,
    ),
    Wanted(
        "two stages a rank, shared table",
        "gpt",
        {"tp": 2},
        microbatches=4,
        pipeline=Pipeline(ranks=2, schedule="interleaved_1f1b", stages_per_rank=2),
        steps=FEW,
    ),
    Wanted(
        "stages of experts, zero 1",
        "mixtral",
        {"dp": 2, "ep": 2, "zero": 1},
        microbatches=4,
        pipeline=Pipeline(ranks=2, schedule="1f1b"),
        steps=FEW,
    ),
    Wanted(
        "backward passes in two, zero 3, recompute",
        "llama",
        {"dp": 2, "zero": 3},
        microbatches=4,
        recompute="full",
        pipeline=Pipeline(ranks=2, schedule="zb_h1"),
        steps=FEW,
    ),
    Wanted(
        "a table in every stage",
        "gpt that reads again",
        {"tp": 2},
        microbatches=4,
        pipeline=Pipeline(
            ranks=2,
            schedule="interleaved_1f1b",
            stages_per_rank=2,
            cuts=("layers.0.second", "layers.1.first", "norm"),
        ),
        steps=FEW,
    ),
    Wanted(
        "four stages",
        "llama",
        microbatches=4,
        pipeline=Pipeline(ranks=4, schedule="1f1b"),
        steps=FEW,
    ),
)
NAMES = list(rotating([wanted.name for wanted in CASES], str))


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, service: str
) -> dict[str, Run]:
    """Of the cases that this session tests."""
    folder: Path = tmp_path_factory.mktemp("four")
    names = values_of_session(request, "name")
    return trained([own for own in CASES if own.name in names], (2, 2), folder, service)


@pytest.mark.parametrize("name", NAMES)
def test_losses_and_gradients_are_those_of_one_process(runs: dict[str, Run], name: str) -> None:
    equals_one_process(runs[name])


@pytest.mark.parametrize("name", NAMES)
def test_the_collectives_that_ran_are_the_plans(runs: dict[str, Run], name: str) -> None:
    run = runs[name]
    runs_as_planned(run)
    assert not run.outcome.why_plain
    assert not run.outcome.fallen_back
