"""`python -m bench.first_page`: how long pages take to open on a slow network.

Two plans of Llama-3 70B on 64 H100, in headless Chromium at 1280 x 900 under
`Network.emulateNetworkConditions`. Seconds from the begin of the navigation: head, until the
heading of the page is there; content, until the page can be used. Cold: a browser without a cache;
else the same page loaded again. Requests: those that reach the network. Each page is opened once
before at full speed, so that the service has its views.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, CDPSession, Page

from bench.dashboard import SHOWN, chromium
from bench.ending import measured
from bench.load import serving
from bench.one_stage import ONE_STAGE
from bench.stored_plans import store_plan
from bench.timing import median_seconds, reference_loop, say
from meshwright.common.files import read_document
from meshwright.schema import Graph, Request, Setup
from meshwright_costmodel.presets import preset

LLAMA = Path(__file__).resolve().parents[1] / "examples" / "graphs" / "llama3-70b.json.gz"
PATIENCE_MS = 300_000  # chosen: the first simulation of a step takes up to a minute
MARKS = """(() => {
  window.marks = {};
  const selectors = {head: "#view h1", content: "#view > [data-shown]"};
  const note = () => {
    for (const [name, selector] of Object.entries(selectors))
      if (!(name in marks) && document.querySelector(selector)) marks[name] = performance.now();
  };
  const changes = {subtree: true, childList: true, attributes: true};
  new MutationObserver(note).observe(document, changes);
})()"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.first_page", description=__doc__)
    parser.add_argument("--latency-ms", type=int, default=400, help="of every request")
    parser.add_argument("--kilobytes-per-s", type=int, default=50, help="that the browser receives")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="meshwright-first-page-") as name:
        folder = Path(name)
        store = f"sqlite:///{folder / 'meshwright.db'}"
        first, second = (store_plan(store, _request(batch)) for batch in (64, 128))
        pages = {
            "list of plans": "/",
            "a plan": f"/plans/{first}",
            "its graph": f"/plans/{first}/graph",
            "its timeline": f"/plans/{first}/timeline",
            "two plans compared": f"/compare?plan={first}&plan={second}",
        }
        with serving(store, folder) as (url, _), chromium() as browser:
            for path in pages.values():
                _open_at_full_speed(browser, url + path)
            columns = "requests | KiB | head | content"
            say(f"| | cold: {columns} | again: {columns} |")
            say("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
            for label, path in pages.items():
                cells = _row(browser, url + path, given.latency_ms, given.kilobytes_per_s)
                say(f"| {label} | " + " | ".join(cells) + " |")
        seconds, _ = median_seconds(reference_loop)
        say(f"| numpy reference loop | | | {1e3 * seconds:.1f} ms | | | | | |")


def _request(batch: int) -> Request:
    return Request(
        graph=read_document(LLAMA, Graph), topology=preset("h100-8x8"),
        setup=Setup.from_dict({"global_batch": batch}), **ONE_STAGE,
    )  # fmt: skip


def _open_at_full_speed(browser: Browser, address: str) -> None:
    with _context(browser) as context:
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector(SHOWN, timeout=PATIENCE_MS)


def _row(browser: Browser, address: str, latency_ms: int, kilobytes_per_s: int) -> list[str]:
    with _context(browser) as context:
        page = context.new_page()
        page.add_init_script(MARKS)
        session = context.new_cdp_session(page)
        rate = 1000 * kilobytes_per_s
        session.send("Network.enable")
        session.send(
            "Network.emulateNetworkConditions",
            {
                "offline": False,
                "latency": latency_ms,
                "downloadThroughput": rate,
                "uploadThroughput": -1,
            },
        )
        cold = _load(page, session, address)
        return cold + _load(page, session, address)


def _load(page: Page, session: CDPSession, address: str) -> list[str]:
    """Requests that reach the network, KiB received, seconds to the head and to the content."""
    page.goto("about:blank")
    sent, cached, received = set[str](), set[str](), list[float]()

    def responded(event: Any) -> None:
        if not event["response"]["fromDiskCache"]:
            sent.add(event["requestId"])

    def served_from_cache(event: Any) -> None:
        cached.add(event["requestId"])

    def finished(event: Any) -> None:
        received.append(event["encodedDataLength"])

    listeners = {
        "Network.responseReceived": responded,
        "Network.requestServedFromCache": served_from_cache,
        "Network.loadingFinished": finished,
    }
    for name, listener in listeners.items():
        session.on(name, listener)
    page.goto(address, wait_until="commit")
    page.wait_for_selector(SHOWN, timeout=PATIENCE_MS)
    page.wait_for_load_state("networkidle")
    for name, listener in listeners.items():
        session.remove_listener(name, listener)
    kibibytes = sum(received) / 1024
    seconds = [f"{page.evaluate('marks')[name] / 1000:.2f} s" for name in ("head", "content")]
    return [f"{len(sent - cached)}", f"{kibibytes:.0f}", *seconds]


@contextmanager
def _context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 900})
    made.set_default_timeout(PATIENCE_MS)
    yield made
    made.close()


if __name__ == "__main__":
    measured(main)
