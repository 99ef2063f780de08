"""The Python example of the page on sweeps is run as written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_example_of_the_page_runs() -> None:
    page = (ROOT / "docs" / "how-to" / "sweeps.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    ran = subprocess.run(
        [sys.executable, "-c", example],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["h100-1x2", "64"], ["h100-1x2", "128"], ["h100-1x4", "64"], ["h100-1x4", "128"],
    ]  # fmt: skip
