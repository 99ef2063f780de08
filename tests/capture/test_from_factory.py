"""Factories named on a command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from meshwright.capture import capture_factory
from meshwright.schema import Graph, GraphError

ROOT = Path(__file__).resolve().parents[2]


def test_a_factory_is_captured_at_the_batch_asked_for():
    graph = capture_factory("examples.models.wide_deep:wide_deep", batch=96)
    assert graph.name == "wide-deep"
    assert graph.symbols == {"batch": 96}
    assert graph.tensor("table.weight").shape == (100_000_000, 64)


def test_the_command_line_finds_a_module_in_its_folder(tmp_path):
    (tmp_path / "mine.py").write_text("from examples.models.wide_deep import wide_deep as make\n")
    command = [Path(sys.executable).parent / "meshwright", "capture", "torch", "mine:make"]
    ran = subprocess.run(
        [*command, "--batch", "96", "--dtype", "bfloat16", "-o", "graph.json"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    graph = Graph.from_json((tmp_path / "graph.json").read_bytes())
    assert {t.dtype for t in graph.tensors if t.role == "parameter"} == {"bfloat16"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("examples.models.wide_deep", "pkg.module:factory"),
        ("no.such.module:factory", "cannot import"),
        ("../models:factory", "pkg.module:factory"),
        (".models:factory", "pkg.module:factory"),
        ("examples.models.wide_deep:missing", "no function 'missing'"),
        ("builtins:dict", "must return a meshwright.capture.Recipe"),
    ],
)
def test_a_spec_that_leads_nowhere_is_refused(spec, message):
    with pytest.raises(GraphError, match=message):
        capture_factory(spec)
