"""The agent on one GPU, by the command that users run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from meshwright.common.files import read_document
from meshwright.schema.samples import Samples


def test_the_agent_measures_every_kind_of_kernel_on_one_gpu(tmp_path: Path) -> None:
    output = tmp_path / "samples.json"
    command = ["-m", "meshwright.cli", "agent", "-o", str(output), "--seconds", "20"]
    subprocess.run(
        [sys.executable, *command, "--processes", "1", "--largest", "1024"], check=True, timeout=120
    )
    samples = read_document(output, Samples)
    assert samples.backend == "nccl"
    assert samples.complete
    assert {sample.kind for sample in samples.kernels} == {
        "matmul", "attention", "memory", "launch",
    }  # fmt: skip
    assert {sample.dtype for sample in samples.kernels} == {"bfloat16", "float16", "float32"}
