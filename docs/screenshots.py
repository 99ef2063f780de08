"""`make screenshots`: the pictures of the documentation, of real plans on a service of its own."""

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
from meshwright.schema.sweep import Sweep

ROOT = Path(__file__).resolve().parents[1]
GRAPHS = ROOT / "examples" / "graphs"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
WINDOW = {"width": 1280, "height": 860}
# the example of docs/how-to/sweeps.md
SWEEP = Sweep(
    topologies=(
        "h100-{16,32,64,128}x8", "h200-{16,32,64,128}x8", "b200-{8,16,32,64}x8",
        "gb200-{1,2,4,8}x72",
    ),
    batches=(1152,),
    targets=("megatron-core",),
    prices={"h100": 2.0, "h200": 2.5, "b200": 4.0, "gb200": 4.5},
    tokens=10**12,
)  # fmt: skip


def main() -> None:
    chromium = shutil.which("chromium") or sys.exit("make screenshots needs chromium")
    with tempfile.TemporaryDirectory(prefix="meshwright-screenshots-") as name:
        store = f"sqlite:///{Path(name) / 'meshwright.db'}"
        with serving(store, Path(name)) as (url, _), Client(url) as client:
            plan = client.plan(graph("mixtral-8x7b"), "h100-8x8").plan
            assert plan is not None
            large = graph("llama3-70b")
            sweep = client.begin_sweep(large, SWEEP)["id"]
            client.follow_sweep(sweep)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
                page = browser.new_page(viewport=WINDOW)
                for address, picture in (
                    (f"plans/{plan.id}", "dashboard.png"),
                    (f"sweeps/{sweep}", "sweep.png"),
                ):
                    page.goto(f"{url}/{address}")
                    page.wait_for_selector("#view > [data-shown]")
                    page.screenshot(path=ROOT / "docs" / picture)
                browser.close()


def graph(name: str) -> Graph:
    return read_document(GRAPHS / f"{name}.json.gz", Graph)


if __name__ == "__main__":
    main()
