"""The example of docs/how-to/graphs.md prints what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "how-to" / "graphs.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_says(tmp_path: Path) -> None:
    (command,) = re.findall(r"^    meshwright (estimate .*)$", PAGE, re.MULTILINE)
    arguments = shlex.split(command)
    arguments[-1] = str(tmp_path / arguments[-1])
    ran(["-m", "meshwright.cli", *arguments], ROOT)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (output,) = re.findall(r"^prints\n\n(.*?)\n\n", PAGE, re.DOTALL | re.MULTILINE)
    expected = [line.removeprefix("    ") for line in output.splitlines()]
    assert ran(["-c", code], tmp_path).splitlines() == expected


def ran(arguments: list[str], folder: Path) -> str:
    found = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True, text=True, timeout=120, check=False, cwd=folder,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout
