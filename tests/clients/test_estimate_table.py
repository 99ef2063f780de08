"""`meshwright estimate --table`: predictions for the rows of a file."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from meshwright.planfile import read_plan
from meshwright.schema import Graph
from tests.clients.conftest import Run

COLUMNS = ("row_id", "hw", "gpus", "layers", "hidden", "heads", "seq_len", "gbs", "tp", "framework")
ROWS = (
    ("first", "H100", "8", "2", "1024", "8", "1024", "16", "2", "Megatron-LM"),
    ("lacks", "H100", "8", "2", "", "8", "1024", "16", "2", "Megatron-LM"),
    ("unknown", "Abacus", "8", "2", "1024", "8", "1024", "16", "2", ""),
    ("", "TPU v5e", "16", "2", "1024", "8", "1024", "16", "1", "MaxText"),
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(",".join(line) for line in (COLUMNS, *ROWS)), encoding="utf-8")
    return path


def test_every_row_has_a_number_or_a_reason(run: Run, table: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    ran = run("estimate", "--table", table, "-o", output)
    assert ran.code == 0, ran.err
    assert f"2 of 4 rows priced in {output}, 2 with a reason in their notes" in ran.err
    with output.open(newline="", encoding="utf-8") as stream:
        first, lacks, unknown, last = csv.DictReader(stream)
    assert [own["row_id"] for own in (first, lacks, unknown, last)] == [
        "first", "lacks", "unknown", "row 4",
    ]  # fmt: skip
    for own in (first, last):
        step, low, high = (
            float(own[name]) for name in ("predicted_step_time_s", "low_s", "high_s")
        )
        assert low < step < high
        assert float(own["predicted_mem_gib"]) > 0
        assert own["fits"] == "true"
    assert "hidden" in lacks["notes"]
    assert "Abacus" in unknown["notes"]
    assert not lacks["predicted_step_time_s"]


def test_a_row_has_the_number_of_its_own_estimate(run: Run, table: Path, tmp_path: Path) -> None:
    graph, output = tmp_path / "graph.json", tmp_path / "plan.json"
    ran = run(
        "capture", "decoder", "--layers", "2", "--hidden", "1024", "--heads", "8", "--ffn", "4096",
        "--gpt", "--vocabulary", "50432", "--batch", "16", "--seq", "1024", "-o", graph,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert Graph.from_json(graph.read_text())
    ran = run(
        "estimate", graph, "--topology", "h100-1x8", "--tp", "2", "--zero", "1",
        "--sequence-parallel", "--microbatch-size", "1", "--uneven", "pad",
        "--stack", "megatron-core", "-o", output,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    step_ns = read_plan(output).plan.cost.step_ns
    lines = run("estimate", "--table", table, "--workers", "1").out.splitlines()
    assert lines[1].split(",")[:2] == ["first", f"{step_ns / 1e9:.6g}"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--table", "{table}", "--topology", "h100-1x8"), "Leave out --topology"),
        (("--table", "{table}", "--tp", "4"), "Leave out --tp"),
        (("{table}", "--table", "{table}"), "Leave out GRAPH"),
        (("--table", "{missing}"), "cannot be read"),
        (("--table", "{empty}"), "has no rows"),
        ((), "needs GRAPH and --topology, or --table"),
    ],
)
def test_what_cannot_be_is_said(
    run: Run, table: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text(",".join(COLUMNS))
    files = {"table": table, "missing": tmp_path / "missing.csv", "empty": empty}
    ran = run("estimate", *(own.format(**files) for own in arguments))
    assert ran.code != 0
    assert said in " ".join(ran.err.split())
