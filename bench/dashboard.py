"""`python -m bench.dashboard [--ops N]`: how long a reader waits for the pages of large plans.

The plan of GPT-3 175B in pipeline stages on 1,024 A100, and one of a graph of N ops without
repeats on 64 H100, in headless Chromium at 1280 x 900, which paints without a GPU. Shown: from the
address to the page that can be used. Cold: the service has just started; else the median of three.
A frame: over 90 while a drag moves the graph with every frame.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from bench.ending import measured
from bench.load import serving
from bench.one_stage import ONE_STAGE
from bench.series_parallel import series_parallel
from bench.stored_plans import gpt3, store_plan
from bench.timing import REPEATS, median_seconds, reference_loop, say
from meshwright.schema import Request
from meshwright_costmodel.presets import preset

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
PATIENCE_MS = 60_000
SHOWN = "#view > [data-shown]"
FRAMES = """frames => new Promise(done => {
  const svg = document.querySelector("svg.graph");
  const at = svg.getBoundingClientRect();
  const send = (type, x, y) => svg.dispatchEvent(new PointerEvent(type, {
    bubbles: true, pointerId: 1, clientX: at.left + x, clientY: at.top + y}));
  svg.setPointerCapture = () => {};
  send("pointerdown", 400, 300);
  const begun = performance.now();
  let count = 0;
  requestAnimationFrame(function next() {
    count += 1;
    send("pointermove", 400 + 300 * Math.sin(count / 15), 300 - 4 * count);
    if (count < frames) requestAnimationFrame(next);
    else { send("pointerup", 0, 0); done((performance.now() - begun) / frames); }
  });
})"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.dashboard", description=__doc__)
    parser.add_argument("--ops", type=int, default=100_000, help="of the larger graph")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="meshwright-dashboard-") as name, chromium() as browser:
        folder = Path(name)
        store = f"sqlite:///{folder / 'meshwright.db'}"
        plans = {
            "GPT-3 175B": store_plan(store, gpt3()),
            f"{given.ops:,} ops": store_plan(store, _large(given.ops)),
        }
        say("| | plan cold | plan | graph cold | graph | a block opens | a frame |")
        say("| --- | --- | --- | --- | --- | --- | --- |")
        for label, plan in plans.items():
            cells = _row(browser, store, folder, plan)
            say(f"| {label} | " + " | ".join(cells) + " |")
        seconds, _ = median_seconds(reference_loop)
        say(f"| numpy reference loop | {1e3 * seconds:.1f} ms | | | | | |")


def _row(browser: Browser, store: str, folder: Path, plan: str) -> list[str]:
    found = []
    for path in (f"/plans/{plan}", f"/plans/{plan}/graph"):
        with serving(store, folder) as (url, _):
            cold = _seconds(browser, url + path)
            warm = statistics.median(_seconds(browser, url + path) for _ in range(REPEATS))
            found += [f"{cold:.2f} s", f"{warm:.2f} s"]
            if path.endswith("graph"):
                found += _moves(browser, url + path)
    return found


def _seconds(browser: Browser, address: str) -> float:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    begun = time.perf_counter()
    page.goto(address)
    page.wait_for_selector(SHOWN, timeout=PATIENCE_MS)
    seconds = time.perf_counter() - begun
    page.close()
    return seconds


def _moves(browser: Browser, address: str) -> list[str]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{address}?open=.")
    page.wait_for_selector(SHOWN, timeout=PATIENCE_MS)
    opened = [_open(page) for _ in range(REPEATS)]
    frame = page.evaluate(FRAMES, 90)
    page.close()
    return [f"{1e3 * statistics.median(opened):.0f} ms", f"{frame:.1f} ms"]


def _open(page: Page) -> float:
    """One module of a drawing that is folded."""
    page.get_by_role("button", name="Fold all").click()
    page.wait_for_selector(".graph .box.open", state="detached", timeout=PATIENCE_MS)
    module = page.locator(".graph .box.module").first
    name = module.get_attribute("data-box")
    begun = time.perf_counter()
    module.dispatch_event("pointerdown")
    module.dispatch_event("pointerup")
    page.wait_for_selector(f'.graph .box.open[data-box="{name}"]', timeout=PATIENCE_MS)
    return time.perf_counter() - begun


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


def _large(ops: int) -> Request:
    return Request(graph=series_parallel(ops), **ONE_STAGE, topology=preset("h100-8x8"))


if __name__ == "__main__":
    measured(main)
