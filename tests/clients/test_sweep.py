"""`meshwright sweep`: the table, its files, what is wrong with options, and going on."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from meshwright.common.files import read_document
from meshwright.planfile import read_plan
from meshwright.schema.sweep import SweepResult
from tests.clients.conftest import Run
from tests.service.samples import GRAPH, TOPOLOGY

FEW = ("--topology", "h100-1x{2,4}", "--batch", "8,16", "--pipeline", "none", "--workers", "1")


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(GRAPH), encoding="utf-8")
    return path


def test_the_table_has_a_row_for_each_point_and_the_best_in_words(run: Run, graph: Path) -> None:
    ran = run("sweep", graph, *FEW, "--price", "h100=2.5", "--tokens", "1B")
    assert ran.code == 0, ran.err
    lines = [line for line in ran.out.splitlines() if "h100-1x" in line and ":" not in line]
    assert [line.split("h100-1x")[1].split()[:2] for line in lines] == [
        ["2", "8"], ["2", "16"], ["4", "8"], ["4", "16"],
    ]  # fmt: skip
    for column in ("devices", "step", "tokens/s", "MFU", "headroom", "run, days", "run, price"):
        assert column in ran.out, column
    assert "●" in ran.out
    for begin in ("fastest: h100-1x", "most for each device: h100-1x", "cheapest: h100-1x"):
        assert any(line.startswith(begin) for line in ran.out.splitlines()), begin


def test_json_is_gone_on_with_and_csv_has_every_field(
    run: Run, graph: Path, tmp_path: Path
) -> None:
    output, table = tmp_path / "sweep.json", tmp_path / "sweep.csv"
    assert run("sweep", graph, *FEW, "-o", output).code == 0
    first = read_document(output, SweepResult)
    output.write_text(first.model_copy(update={"rows": first.rows[:3]}).to_json())
    again = run("sweep", graph, *FEW, "-o", output)
    assert again.code == 0
    assert "3 points are in" in again.err
    assert read_document(output, SweepResult) == first
    assert run("sweep", graph, *FEW, "-o", table).code == 0
    with table.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["topology"] for row in rows] == [row.point.topology for row in first.rows]
    for record, row in zip(rows, first.rows, strict=True):
        assert row.figures is not None
        assert float(record["step_ms"]) == row.figures.step_ns / 1e6
        assert int(record["batch"]) == row.figures.batch


def test_another_sweep_does_not_go_on_with_a_file(run: Run, graph: Path, tmp_path: Path) -> None:
    output = tmp_path / "sweep.json"
    assert run("sweep", graph, *FEW, "-o", output).code == 0
    other = run("sweep", graph, *FEW, "--stack", "megatron-core", "-o", output)
    assert other.code == 0
    assert "already" not in other.err
    output.write_text("not a sweep")
    assert run("sweep", graph, *FEW, "-o", output).code == 0
    assert len(read_document(output, SweepResult).rows) == 4


def test_each_plan_is_a_file_that_can_be_read(run: Run, graph: Path, tmp_path: Path) -> None:
    folder, cluster = tmp_path / "plans" / "of it", tmp_path / "mine.json"
    cluster.write_text(json.dumps(TOPOLOGY), encoding="utf-8")
    ran = run(
        "sweep", graph, "--topology", f"{cluster},h100-1x2", "--target", "none,torchtitan",
        "--plans", folder, "--workers", "1",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert sorted(path.name for path in folder.iterdir()) == [
        "h100-1x2.json.gz", "h100-1x2.target-torchtitan.json.gz",
        "two-by-four.json.gz", "two-by-four.target-torchtitan.json.gz",
    ]  # fmt: skip
    for path in folder.iterdir():
        file = read_plan(path)
        assert file.graph is not None
        assert (file.plan.wishes.target == "torchtitan") == ("torchtitan" in path.name)


def test_where_no_point_fits_the_code_is_that_of_infeasible(
    run: Run, graph: Path, tmp_path: Path
) -> None:
    cluster = tmp_path / "small.json"
    device = {**TOPOLOGY["device"], "memory_bytes": 10}
    cluster.write_text(json.dumps({**TOPOLOGY, "device": device}), encoding="utf-8")
    ran = run("sweep", graph, "--topology", cluster, "--workers", "1")
    assert ran.code == 1
    assert "infeasible" in ran.out
    assert "1 of 1 points without a plan that fits" in ran.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--topology", ","), "--topology: no topology is named"),
        (("--topology", "h100-{2,4x8"), "braces of 'h100-{2,4x8' do not match"),
        (("--topology", "h101-2x8"), "h101"),
        (("--batch", "8,none"), "--batch: 'none' is not a whole number"),
        (("--batch", "0"), "--batch: '0' is not a whole number of 1 or more"),
        (("--seq", "1.5"), "--seq: '1.5' is not a whole number"),
        (("--precision", "fp4"), "--precision: 'fp4' is none of"),
        (("--target", "jax"), "--target: 'jax' is none of"),
        (("--price", "h100"), "--price: 'h100' is not like h100=2.5"),
        (("--price", "b200=3"), "the price of 'b200' is of no topology"),
        (("--tokens", "many"), "--tokens: 'many' is not a whole number"),
        (("-o", "nowhere/sweep.json"), "nowhere/sweep.json cannot be written"),
    ],
)
def test_bad_options_are_told_in_one_message(
    run: Run, graph: Path, options: tuple[str, str], said: str
) -> None:
    given = ("--topology", "h100-1x2") if "--topology" not in options else ()
    ran = run("sweep", graph, *given, *options)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert not ran.out


@pytest.mark.parametrize(
    ("text", "value"),
    [("64", 64), ("2e12", 2 * 10**12), ("15T", 15 * 10**12), ("1.5B", 15 * 10**8)],
)
def test_numbers_of_tokens_as_people_write_them(
    run: Run, graph: Path, tmp_path: Path, text: str, value: int
) -> None:
    output = tmp_path / "sweep.json"
    ran = run(
        "sweep", graph, "--topology", "h100-1x2", "--pipeline", "none", "--tokens", text,
        "-o", output, "--workers", "1",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert read_document(output, SweepResult).sweep.tokens == value
