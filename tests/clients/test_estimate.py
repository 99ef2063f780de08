"""`meshwright estimate`: strategies as people state them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from meshwright.planfile import read_plan
from meshwright.schema import Answer, Degrees, Pipeline, Request
from meshwright_costmodel.calibrations import datasheet_calibration
from tests.clients.conftest import Run
from tests.service import planners

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "estimate.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    meshwright (estimate .*)$", PAGE, re.MULTILINE)
LLAMA = ROOT / "examples" / "graphs" / "llama3-8b.json.gz"
ON = (LLAMA, "--topology", "h100-8x8", "--batch", "64", "--seq", "4096")


def test_a_stated_strategy_becomes_a_plan_file(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "plan.json"
    degrees = ("--tp", "8", "--sequence-parallel", "--zero", "1", "--microbatch-size", "2")
    ran = run("estimate", *ON, *degrees, "-o", output)
    assert ran.code == 0, ran.err
    assert "the strategy is stated: dp 8, tp 8, zero 1, sequence parallel" in ran.out
    plan = read_plan(output).plan
    assert plan.microbatches == 4
    assert [(axis.name, axis.level) for axis in plan.stages[0].mesh.axes] == [
        ("dp", "node"),
        ("tp", "gpu"),
    ]


def test_the_interval_of_the_step_is_that_of_the_stack(run: Run, tmp_path: Path) -> None:
    said = []
    for more in ((), ("--stack", "internevo"), ("--calibration", tmp_path / "own.json")):
        if more and more[0] == "--calibration":
            (tmp_path / "own.json").write_text(datasheet_calibration().to_json())
        ran = run("estimate", *ON, "--tp", "8", *more, "-o", tmp_path / "plan.json")
        assert ran.code == 0, ran.err
        said.append(" ".join(ran.out.split()))
    assert "80 % of published steps lie so around their prediction (any stack" in said[0]
    assert "(the stack internevo)" in said[1]
    assert "80 % of published" not in said[2]


def test_what_does_not_fit_is_shown_all_the_same(run: Run) -> None:
    ran = run("estimate", *ON)
    assert ran.code == 0
    assert "this does not fit: it needs 157.6 GiB on a device" in " ".join(ran.out.split())


def test_the_options_say_what_is_asked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []

    def listen(request: Request, *_: object) -> Answer:
        asked.append(request)
        return planners.tiny(request)

    monkeypatch.setattr("meshwright.cli.asking.find_planner", lambda: listen)
    ways = ("--dp", "2", "--tp", "4", "--cp", "2", "--pp", "4", "--vpp", "2", "--ep", "2")
    rest = ("--zero", "3", "--zero-size", "2", "--microbatches", "8")
    assert run("estimate", *ON, *ways, *rest).code == 0
    (request,) = asked
    assert request.degrees == Degrees(dp=2, tp=4, cp=2, ep=2, zero=3)
    assert request.pipeline == Pipeline(ranks=4, stages_per_rank=2)
    assert request.setup.microbatches == 8
    sharding = request.constraints.optimizer_parallel
    assert sharding is not None
    assert sharding.shard_size == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--zero", "4"), "--zero: Input should be 0, 1, 2 or 3"),
        (("--zero-size", "2"), "degrees state zero 0, which shards nothing"),
        (("--vpp", "2"), "say --pp too"),
        (("--microbatch-size", "3"), "a global batch of 64 over dp 64 is no whole number"),
        (("--microbatches", "2", "--microbatch-size", "1"), "say the same"),
        (("--sequence-parallel",), "but tp is 1"),
        (("--dp", "6", "--ep", "4"), "ep 4 is a part of dp, but does not divide dp 6"),
        (("--tp", "3"), "tp 3 does not divide the 64 devices"),
        (("--pp", "3"), "3 pipeline ranks cannot be cut from 8 node × 8 gpu"),
        (("--ep", "8"), "no op has experts"),
    ],
)
def test_what_cannot_be_is_said(run: Run, options: tuple[str, ...], said: str) -> None:
    ran = run("estimate", *ON, *options)
    assert ran.code == 2
    assert said in ran.err


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_page_run(
    run: Run, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    ran = run(*shlex.split(command))
    assert ran.code == 0, ran.err
    assert ("verified: " in ran.out) == ("--verify" in command)
    if "--table" in command:
        assert all(f"    {line}\n" in PAGE for line in ran.out.splitlines()), ran.out


def test_the_page_explains_every_degree() -> None:
    for name in Degrees.model_fields:
        assert name in PAGE or f"--{name.replace('_', '-')}" in PAGE
