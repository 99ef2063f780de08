"""A running service with real plans, and a page of a real Chromium that forgives nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

from bench.one_stage import ONE_STAGE
from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.schema import Graph
from tests.service.conftest import server

ROOT = Path(__file__).resolve().parents[2]
SHOTS = Path(__file__).resolve().parent / "shots"
GRAPHS = {"llama": "llama3-8b", "mixtral": "mixtral-8x7b", "face": "face-head"}
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")  # as distributions call it
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE_MS = 60_000  # chosen: a machine that has much else to do; nothing here takes a tenth
expect.set_options(timeout=PATIENCE_MS)
WIDE = {"width": 1280, "height": 900}


@dataclass(frozen=True)
class Site:
    """A service, the ids of its plans by the names in GRAPHS, and the folder of its store."""

    url: str
    plans: dict[str, str]
    folder: Path


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    for name in [name for name in os.environ if name.startswith("MESHWRIGHT_")]:
        del os.environ[name]
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as settings, ExitStack() as stack:
        # axe and pictures stand between an agent's lease and its results
        settings.setenv("MESHWRIGHT_LEASE_S", "120")
        settings.setenv("MESHWRIGHT_AGENT_SILENT_S", "3600")  # the one registered gives no sign
        url, _ = stack.enter_context(
            server(folder, planner="meshwright_solver.planning.planner:plan")
        )
        settings.undo()
        client = stack.enter_context(Client(url))
        plans = {}
        for name, graph in GRAPHS.items():
            document = read_document(ROOT / "examples" / "graphs" / f"{graph}.json.gz", Graph)
            answer = client.plan(document, "h100-8x8", **ONE_STAGE)
            assert answer.plan is not None
            plans[name] = answer.plan.id
        yield Site(url, plans, folder)


@pytest.fixture(scope="module")  # while it is there, nothing else may run an event loop
def browser() -> Iterator[Browser]:
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    assert found, "the tests of the dashboard need Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield made
        made.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport=WIDE, reduced_motion="reduce")
    made.set_default_timeout(PATIENCE_MS)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, site: Site) -> Iterator[Page]:
    """Fails the test afterwards for an error on the console, or a request to another host."""
    made, wrong = context.new_page(), list[str]()
    own = urlsplit(site.url).netloc

    def said(message: ConsoleMessage) -> None:
        # what the service refuses is shown on the page, and tested there
        if message.type == "error" and "Failed to load resource" not in message.text:
            wrong.append(message.text)

    def asked(request: Request) -> None:
        url = urlsplit(request.url)
        if url.netloc != own and url.scheme not in ("blob", "data"):
            wrong.append(request.url)

    made.on("console", said)
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on("request", asked)
    yield made
    assert wrong == []


def visit(page: Page, url: str) -> None:
    """Opens an address and waits until its view is shown."""
    page.goto(url)
    page.wait_for_selector("#view > [data-shown]")


def overflow(page: Page, widths: tuple[int, ...] = (390, 1280, 1920)) -> list[int]:
    """Of these widths those at which the page is wider than its window."""
    found = []
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append(width)
    page.set_viewport_size(WIDE)
    return found


def axe(page: Page) -> list[str]:
    """Findings that are serious or worse, with the elements."""
    answer = Axe().run(page).response["violations"]
    return [
        f"{own['id']}: {node['html'][:160]}"
        for own in answer
        if own["impact"] in ("serious", "critical")
        for node in own["nodes"]
    ]


def themes(page: Page) -> Iterator[str]:
    """The page in each theme, one after another."""
    for name in ("light", "dark"):
        page.emulate_media(color_scheme=name)
        yield name


def shot(page: Page, name: str) -> None:
    """The whole page into SHOTS, to be looked at."""
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


def check(page: Page, name: str) -> None:
    """What every view owes: no overflow, nothing serious for axe, a picture of each theme."""
    assert overflow(page) == []
    for theme in themes(page):
        assert axe(page) == [], theme
        shot(page, f"{name}-{theme}")
