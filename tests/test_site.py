"""The documentation is built as a site without warnings: `make docs`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    command = ["sphinx", "--fail-on-warning", "--keep-going", "-q", "-b", "html"]
    built = subprocess.run(
        [
            sys.executable,
            "-m",
            *command,
            "-d",
            tmp_path / "trees",
            ROOT / "docs",
            tmp_path / "site",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    docs, site = ROOT / "docs", tmp_path / "site"
    pages = {page.relative_to(docs).with_suffix("") for page in docs.rglob("*.md")}
    built_pages = {page.relative_to(site).with_suffix("") for page in site.rglob("*.html")}
    assert pages - built_pages == set()
