"""`meshwright plan --target`: the file of the framework without another word."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from meshwright.common.files import read_document
from meshwright.planfile import PlanFile
from tests.clients.conftest import Run
from tests.solver.layered import layered


def graph_file(folder: Path) -> Path:
    path = folder / "graph.json"
    path.write_text(layered(8, batch=64).to_json())
    return path


def test_a_plan_for_a_target_is_exported_for_it(run: Run, tmp_path: Path) -> None:
    graph, file = graph_file(tmp_path), tmp_path / "plan.json"
    on = ("--topology", "h100-1x4", "--budget", "60")
    for target, says in (("accelerate", yaml.safe_load), ("deepspeed", json.loads)):
        found = run("plan", graph, *on, "--target", target, "-o", file)
        assert found.code == 0, found.err
        assert f"note: {target}: " in found.out
        assert "without a target" in found.out
        document = read_document(file, PlanFile)
        assert document.setup.uneven == "chunk"
        assert document.setup.stack in ("torchtitan", "megatron-deepspeed")
        written = run("export", file)
        assert written.code == 0, written.err
        assert "lost: nothing" in written.err
        assert says(written.out)
        assert run("verify", file).code == 0


def test_what_cannot_be_is_said(run: Run, tmp_path: Path) -> None:
    graph, file = graph_file(tmp_path), tmp_path / "plan.json"
    on = ("--topology", "h100-1x4")
    unknown = run("plan", graph, *on, "--target", "megatron")
    assert unknown.code == 2
    assert "--target: 'megatron' is none of megatron-core, torchtitan" in unknown.err
    pinned = run("plan", graph, *on, "--target", "deepspeed", "--pin", "0.linear:data_parallel")
    assert pinned.code == 2
    assert "which pins does not restrict" in pinned.err
    batch = run("plan", graph, *on, "--target", "deepspeed", "--batch", "30")
    assert batch.code == 2
    assert "no strategy of deepspeed divides a batch of 30 over 4 devices" in batch.err
    assert run("plan", graph, *on, "--pipeline", "none", "-o", file).code == 0
    none = run("export", file)
    assert none.code == 2
    assert "the plan was searched without a target. Use --to with one of" in none.err
