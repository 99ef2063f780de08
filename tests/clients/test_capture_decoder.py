"""`meshwright capture decoder`: a graph from dimensions."""

from __future__ import annotations

from pathlib import Path

from meshwright.common.files import read_document
from meshwright.schema import Graph, Request
from meshwright_costmodel.presets import preset
from meshwright_solver.planning.planner import plan
from tests.clients.conftest import Run

SMALL = ("--layers", "2", "--hidden", "64", "--heads", "4", "--batch", "16", "--seq", "32")


def test_the_command_writes_what_is_planned(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    done = run("capture", "decoder", *SMALL, "--vocabulary", "128", "-o", file)
    assert done.code == 0, done.err
    graph = read_document(file, Graph)
    assert graph.name == "mine"
    assert graph.tensor("model.layers.1.mlp.up_proj.weight").shape == (256, 64)
    assert plan(Request(graph=graph, topology=preset("h100-1x2"))).plan is not None


def test_dimensions_that_do_not_fit_are_one_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    done = run("capture", "decoder", *SMALL, "--vocabulary", "9", "--kv-heads", "3", "-o", file)
    assert done.code == 2
    assert "kv_heads 3 does not divide heads 4" in done.err
    assert not file.exists()
