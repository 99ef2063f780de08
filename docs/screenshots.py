"""`make screenshots`: the pictures of the README, of a real plan on a service of its own."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from bench.load import serving
from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.schema import Graph

ROOT = Path(__file__).resolve().parents[1]
GRAPH = ROOT / "examples" / "graphs" / "mixtral-8x7b.json.gz"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
WINDOW = {"width": 1280, "height": 860}


def main() -> None:
    chromium = shutil.which("chromium") or sys.exit("make screenshots needs chromium")
    with tempfile.TemporaryDirectory(prefix="meshwright-screenshots-") as name:
        store = f"sqlite:///{Path(name) / 'meshwright.db'}"
        with serving(store, Path(name)) as (url, _), Client(url) as client:
            plan = client.plan(read_document(GRAPH, Graph), "h100-8x8").plan
            assert plan is not None
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
                page = browser.new_page(viewport=WINDOW)
                page.goto(f"{url}/plans/{plan.id}")
                page.wait_for_selector("#view > [data-shown]")
                page.screenshot(path=ROOT / "docs" / "dashboard.png")
                browser.close()


if __name__ == "__main__":
    main()
