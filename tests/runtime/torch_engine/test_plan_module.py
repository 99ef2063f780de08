"""`meshwright.plan`: a module, an example batch and a cluster give a plan that trains it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import meshwright
from meshwright.planfile import PlanFile
from meshwright.schema import InvalidInput, PlanError, Setup
from tests.runtime.torch_engine.models import MODELS

ROOT = Path(__file__).parents[3]
BATCH = MODELS["odd"].batch(8)


def test_a_plan_has_all_that_a_job_needs(tmp_path: Path) -> None:
    with torch.device("meta"):
        module = MODELS["odd"].build()
    file = meshwright.plan(
        module, BATCH, topology="h100-1x4", setup=Setup(microbatches=2), seconds=60, name="odd"
    )
    assert isinstance(file, PlanFile)
    assert file.plan.wishes.target == "fsdp2"
    assert (file.plan.name, file.plan.microbatches) == ("odd", 2)
    assert file.graph is not None
    assert file.graph.symbols == {"batch": 8}
    assert file.setup is not None
    assert file.setup.global_batch == 8
    assert "target='fsdp2'" in repr(file)
    assert "<th>step</th>" in file._repr_html_()
    file.write(tmp_path / "plan.json")
    assert PlanFile.from_json((tmp_path / "plan.json").read_text()).id == file.id


def test_what_cannot_be_planned_is_said() -> None:
    module = MODELS["odd"].build()
    with pytest.raises(InvalidInput, match="no tensor with a batch dim"):
        meshwright.plan(module, {}, topology="h100-1x4")
    with pytest.raises(InvalidInput, match="unknown topology preset"):
        meshwright.plan(module, BATCH, topology="h100-1y4")
    with pytest.raises(PlanError, match="no plan fits: memory"):
        meshwright.plan(Large(), {"x": torch.zeros(4, 2**16)}, topology="h100-1x1", seconds=60)


class Large(torch.nn.Module):
    """256 GiB of parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(2**20, 2**16, device="meta"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weight).square().mean()


def test_the_ten_lines_of_the_page_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "runtime-torch.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    script = tmp_path / "train.py"
    script.write_text(
        "from examples.train_text import Decoder, batch_of\n"
        "model, batch = Decoder(), batch_of(0)\n"
        "batches = [batch_of(step) for step in range(3)]\n"
        f"{lines}\n"
        "assert loss.isfinite()\n"
    )
    _run(4, script, {"PYTHONPATH": str(ROOT)})


def test_the_example_trains_alike_on_any_number_of_ranks(tmp_path: Path) -> None:
    said = {ranks: _train(ranks, tmp_path / str(ranks), steps=20) for ranks in (1, 2, 4)}
    for lines in said.values():
        assert lines[1:] == said[1][1:]
        assert [line.partition(":")[0] for line in lines[1:]] == ["step 10", "step 20"]
    assert said[4][0] == "fsdp2: dp 4, 1 microbatches"
    assert float(said[1][2].split()[-1]) < float(said[1][1].split()[-1])
    # two ranks go on from the checkpoint of four, one rank from that of two
    assert _train(2, tmp_path / "4", steps=10)[1:] == _train(1, tmp_path / "2", steps=10)[1:]


def _train(ranks: int, folder: Path, steps: int) -> list[str]:
    script = ROOT / "examples" / "train_text.py"
    return _run(ranks, script, {}, "--checkpoint", str(folder), "--steps", str(steps))


def _run(ranks: int, script: Path, more: dict[str, str], *options: str) -> list[str]:
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
        str(ranks), str(script), *options,
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()
