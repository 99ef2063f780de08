"""Two processes train under plans, and equal one process to rounding; the example of the docs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest

from meshwright.schema import Axis, Pin, Pipeline, Recompute
from tests.capture.rotation import rotating, values_of_session
from tests.runtime.planned import FEW, Run, Wanted, equals_one_process, runs_as_planned, trained

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "runtime.md"
SEQUENCE_PARALLEL = {"tp": 2, "sequence_parallel": True}
ROWS_CUT = (Pin(op="*.attention", strategy={"s": (Axis("gpu"),), "t": ()}),)


def stated(communication: Literal["repeat", "keep"]) -> Recompute:
    """The feed-forward part and the norm before it, of every layer."""
    ops = ("layers.*.mlp*", "layers.*.*norm*")
    return Recompute(policy="stated", ops=ops, communication=communication)


CASES = (
    Wanted("data parallel", "llama", {"dp": 2}),
    Wanted("tensor parallel", "llama", {"tp": 2}),
    Wanted("sequence parallel", "llama", SEQUENCE_PARALLEL),
    Wanted("ring attention", "llama", {"cp": 2}, steps=FEW),
    Wanted("rows of attention", "llama", pins=ROWS_CUT, steps=FEW),
    Wanted("zigzag", "llama", pins=ROWS_CUT, sequence_order="zigzag", steps=FEW),
    Wanted("zigzag, ring attention", "llama", {"cp": 2}, sequence_order="zigzag", steps=FEW),
    Wanted("recurrent layers", "recurrent", {"dp": 2}, steps=FEW),
    Wanted("heads with sinks", "sinks", {"tp": 2}, steps=FEW),
    Wanted("rows with sinks", "sinks", pins=ROWS_CUT, steps=FEW),
    Wanted("zigzag with sinks", "sinks", pins=ROWS_CUT, sequence_order="zigzag", steps=FEW),
    Wanted("ring attention with sinks", "sinks", {"cp": 2}, steps=FEW),
    Wanted("rows with biases", "biases", pins=ROWS_CUT, steps=FEW),
    Wanted("ring attention with biases", "biases", {"cp": 2}, steps=FEW),
    Wanted("cheap", "llama", SEQUENCE_PARALLEL, recompute="cheap", steps=FEW),
    Wanted("full", "llama", SEQUENCE_PARALLEL, recompute="full", steps=FEW),
    Wanted("full, repeats", "llama", SEQUENCE_PARALLEL, recompute="full", repeats=True, steps=FEW),
    Wanted("stated, repeats", "llama", SEQUENCE_PARALLEL, recompute=stated("repeat"), steps=FEW),
    Wanted("stated, kept", "llama", SEQUENCE_PARALLEL, recompute=stated("keep"), steps=FEW),
    Wanted("single precision", "llama", SEQUENCE_PARALLEL, dtype="float32"),
    Wanted("own ops", "own ops", {"dp": 2}, steps=FEW),
    Wanted("complex numbers", "long convolution", {"dp": 2}, steps=FEW),
    Wanted("attention in windows", "windows", {"dp": 2}, steps=FEW),
    Wanted("all tokens at one expert", "one expert", {"dp": 2, "ep": 2}, steps=FEW),
    Wanted("region of two", "region of two", steps=FEW),
    Wanted(
        "stated outputs",
        "wide and deep",
        pins=(
            Pin(op="table", inputs=((2, 1), (1, 1)), outputs=((2, 1, 1),)),
            Pin(op="deep.0", inputs=((1, 2), (1, 2), (1,)), outputs=((1, 2),)),
        ),
        steps=FEW,
    ),
    Wanted("stages", "llama", microbatches=4, pipeline=Pipeline(ranks=2, schedule="1f1b")),
    Wanted(
        "stages in single precision",
        "llama",
        microbatches=4,
        dtype="float32",
        pipeline=Pipeline(ranks=2, schedule="1f1b"),
        steps=FEW,
    ),
    Wanted("shared table", "gpt", microbatches=4, pipeline=Pipeline(ranks=2, schedule="gpipe")),
    Wanted(
        "backward passes in two",
        "gpt",
        microbatches=4,
        pipeline=Pipeline(ranks=2, schedule="zb_v", stages_per_rank=2),
        steps=FEW,
    ),
)
# those that other tests of this file compare
ALWAYS = (
    *("data parallel", "sequence parallel", "ring attention", "cheap", "full", "full, repeats"),
    *("stated, repeats", "stated, kept"),
    "all tokens at one expert",
)
NAMES = [
    *ALWAYS,
    *rotating([wanted.name for wanted in CASES if wanted.name not in ALWAYS], str),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("two")


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, folder: Path, service: str) -> dict[str, Run]:
    """Of the cases that this session tests."""
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len(example.split("\n\n")[-1].splitlines()) < 10
    names = {*ALWAYS, *values_of_session(request, "name")}
    chosen = [wanted for wanted in CASES if wanted.name in names]
    return trained(chosen, (2,), folder, service, example)


@pytest.mark.parametrize("name", NAMES)
def test_losses_and_gradients_are_those_of_one_process(runs: dict[str, Run], name: str) -> None:
    run = runs[name]
    equals_one_process(run, rounding=1e-5 if "single precision" in name else 1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_the_collectives_that_ran_are_the_plans(runs: dict[str, Run], name: str) -> None:
    run = runs[name]
    runs_as_planned(run)
    assert not run.outcome.why_plain


def test_a_rank_gets_its_own_share_of_the_service_and_no_other(
    runs: dict[str, Run], folder: Path
) -> None:
    of_service = [run for name, run in runs.items() if name != "full, repeats"]
    for rank in range(2):
        kept = {path.name for path in (folder / "cache" / str(rank)).iterdir()}
        shares = {f"{run.plan.id}.{rank}.json" for run in of_service}
        assert kept == shares | {f"{run.graph.id}.json" for run in of_service}


def test_what_falls_back_is_said(runs: dict[str, Run]) -> None:
    fallen = {name: set(run.outcome.fallen_back) for name, run in runs.items()}
    attention = {"layers.0.attention", "layers.1.attention"}
    names = ("ring attention", "zigzag, ring attention")
    with_more = ("ring attention with sinks", "ring attention with biases")
    rings = {name: attention for name in (*names, *with_more) if name in runs}
    assert fallen == {**{name: set() for name in fallen}, **rings}


def kept_bytes(run: Run) -> tuple[int, int]:
    """Of a microbatch until its backward pass: what was, and what the plan says."""
    planned = sum(tensor.saved_bytes for tensor in run.plan.stages[0].tensors)
    return run.outcome.saved_bytes, planned


def test_what_is_done_again_is_not_saved(runs: dict[str, Run]) -> None:
    kept, planned = kept_bytes(runs["sequence parallel"])
    for name in ("cheap", "full"):
        run = runs[name]
        assert run.plan.stages[0].recompute is not None
        kept_less, planned_less = kept_bytes(run)
        # kernels of PyTorch save more than one fused op does, and that goes too
        assert kept - kept_less >= planned - planned_less > 0
    # beside the plan's: the last norm's own, rotary tables, numbers by row of the loss
    kept, planned = kept_bytes(runs["full"])
    assert planned <= kept < 1.1 * planned


def test_what_a_repeated_collective_brings_is_not_saved(runs: dict[str, Run]) -> None:
    # in both layers 4 x 8 x 32 float64 after each norm, and of the output of attention half of them
    saved, repeated = (kept_bytes(runs[name])[0] for name in ("full", "full, repeats"))
    assert saved - repeated == 2 * (2 * 4 * 8 * 32 * 8 + 4 * 4 * 32 * 8)


def test_kept_collectives_of_stated_ops_are_saved(runs: dict[str, Run]) -> None:
    plain = kept_bytes(runs["sequence parallel"])[0]
    repeated, kept = (kept_bytes(runs[f"stated, {name}"])[0] for name in ("repeats", "kept"))
    assert repeated < kept < plain
