"""The example of docs/reference/conversions.md prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "conversions.md"


def test_the_example_prints_what_its_comments_say() -> None:
    pytest.importorskip("jax")
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == re.findall(r"print\(.*\)  +# (.*)", code)
