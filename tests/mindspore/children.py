"""Programs in the Python that has MindSpore: `make test-mindspore` says which that is."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON = "MESHWRIGHT_MINDSPORE"


def run(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """`python -m ARGUMENTS`; MindSpore leaves files where it runs, so in a folder of its own."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "clients")])
    return subprocess.run(
        [os.environ[PYTHON], "-m", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "GLOG_v": "3", "COLUMNS": "200"},
    )


def capture(model: str, batch: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """`meshwright capture mindspore` of one of our networks, into `MODEL.json`."""
    spec = f"tests.mindspore.networks:{model}"
    file = folder / f"{model}.json"
    return run(
        "meshwright.cli", "capture", "mindspore", spec, "--batch", str(batch), "-o", file,
        folder=folder,
    )  # fmt: skip


def compiled(model: str, network: str, how: str, folder: Path) -> dict[str, Any]:
    """What MindSpore makes of a network under an exported plan."""
    file = folder / "network.json"
    file.write_text(network)
    ran = run("tests.mindspore.compiled", model, file, how, folder=folder)
    said = [line for line in ran.stdout.splitlines() if line.startswith("COMPILED ")]
    assert said, ran.stderr[-3000:]
    found: dict[str, Any] = json.loads(said[0].removeprefix("COMPILED "))
    return found
