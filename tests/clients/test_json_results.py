"""`--json`: a command's result as one JSON document on standard output."""

from __future__ import annotations

import json
from pathlib import Path

from meshwright.planfile import read_plan
from meshwright.schema import Certificate, Infeasible, Plan
from meshwright.schema.comparison import Comparison
from meshwright.schema.explanation import Explanation
from meshwright.schema.simulation import Simulation
from meshwright.schema.transfer import Transfer
from tests.clients.conftest import Run


def test_every_command_that_reads_a_plan_prints_its_document(
    run: Run, graph_file: Path, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    ran = run("plan", graph_file, "--topology", "h100-2x4", "-o", file, "--json")
    plan = Plan.from_json(ran.out)
    assert read_plan(file).plan.id == plan.id
    assert Plan.from_json(run("show", file, "--json").out).id == plan.id
    documents = {
        ("verify", file): Certificate,
        ("simulate", file): Simulation,
        ("transfer", file, file): Transfer,
        ("compare", file, file): Comparison,
        ("explain", file, "--op", plan.stages[0].ops[0].op): Explanation,
    }
    for words, kind in documents.items():
        ran = run(*words, "--json")
        assert ran.code == (1 if kind is Certificate else 0), ran.err  # the graph has no loss
        kind.from_json(ran.out)  # type: ignore[attr-defined]


def test_the_reason_for_which_no_plan_fits_is_a_document_too(run: Run, tmp_path: Path) -> None:
    wide = 1 << 21
    tensors = [
        {"name": "x", "shape": [8, wide], "dtype": "float32", "role": "input"},
        {"name": "w", "shape": [wide, wide], "dtype": "float32", "role": "parameter"},
        {"name": "y", "shape": [8, wide], "dtype": "float32"},
    ]
    ops = [{"name": "up", "kind": "linear", "inputs": ["x", "w"], "outputs": ["y"]}]
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps({"tensors": tensors, "ops": ops, "outputs": ["y"]}))
    ran = run("plan", graph, "--topology", "h100-1x8", "--json")
    assert ran.code == 1
    assert Infeasible.model_validate_json(ran.out).constraint == "memory"
