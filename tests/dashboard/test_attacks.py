"""Names that would be markup elsewhere stay text; the policy holds where code slips."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from meshwright.client import Client
from tests.dashboard.conftest import Site, axe, overflow, shot, visit
from tests.dashboard.hostile import MARKUP, Hostile, fill
from tests.dashboard.test_shell import FILES
from tests.service.conftest import server

PATHS = re.findall(r'^  \["(/[^"]*)"', (FILES / "routes.js").read_text(), re.MULTILINE)
QUERIES = {"/compare": "?plan={plan}&plan={other}"}
# elements that come of markup and of nothing that pages make
FOREIGN = (
    "img, iframe, object, embed, base, link:not(head *), script:not(head *), [onerror], [onload]"
)
INJECTIONS = {
    "script": "made('script').src = 'data:text/javascript,alert(1)'",
    "inline script": "made('script').textContent = 'alert(1)'",
    "script of another": "made('script').src = other",
    "handler": "document.body.setAttribute('onclick', 'alert(1)'); document.body.click()",
    "text that runs": "setTimeout('alert(1)')",
    "markup": "document.body.insertAdjacentHTML('beforeend', '<b>x</b>')",
    "style": "document.body.setAttribute('style', 'color: red')",
    "style sheet": "Object.assign(made('link'), {rel: 'stylesheet', href: other})",
    "fetch": "fetch(other)",
    "image": "made('img').src = other",
    "frame": "made('iframe').src = other",
    "form": "const own = made('form'); own.action = other; own.submit()",
    "base": "made('base').href = other",
}
# what stops an injection, or null after 5 s
TRIED = """async (other) => new Promise((resolve) => {
    addEventListener('securitypolicyviolation', (event) => resolve(event.violatedDirective));
    addEventListener('unhandledrejection', (event) => resolve(event.reason.name));
    const made = (tag) => document.body.appendChild(document.createElement(tag));
    try { %s; } catch (error) { resolve(error.name); }
    setTimeout(() => resolve(null), 5000);
})"""


class Counted(BaseHTTPRequestHandler):
    """Another host: who asks it for anything is counted."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(204)
        self.end_headers()

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Counted)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{made.server_address[1]}/x"
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    folder = tmp_path_factory.mktemp("hostile")
    with (
        server(folder, planner="meshwright_solver.planning.planner:plan") as (url, _),
        Client(url) as client,
    ):
        yield fill(url, client)


@pytest.fixture
def tab(context: BrowserContext) -> Iterator[Page]:
    """A page that fails the test where anything of a name is run."""
    made, wrong = context.new_page(), list[str]()
    made.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on(
        "console",
        lambda own: (
            wrong.append(own.text)
            if own.type == "error" and "Failed to load resource" not in own.text
            else None
        ),
    )
    yield made
    assert wrong == []


@pytest.mark.rotating
@pytest.mark.parametrize("path", PATHS)
def test_names_are_text_on_every_page(tab: Page, hostile: Hostile, path: str) -> None:
    ids = {**hostile.ids, "other": hostile.other}
    visit(tab, hostile.url + (path + QUERIES.get(path, "")).format(**ids))
    expect(tab.get_by_role("alert")).to_have_count(0)
    expect(tab.get_by_text(MARKUP).first).to_be_attached()
    assert tab.locator(FOREIGN).count() == 0
    assert axe(tab) == []
    shot(tab, f"hostile{path.replace('/', '-').replace('{', '').replace('}', '')}")
    assert overflow(tab) == []


@pytest.mark.parametrize("what", INJECTIONS)
def test_the_policy_holds_where_code_slips(
    context: BrowserContext, site: Site, other: str, what: str
) -> None:
    page = context.new_page()
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    visit(page, f"{site.url}/agents")
    assert page.evaluate(TRIED % INJECTIONS[what], other)
    assert Counted.asked == []
    page.close()


@pytest.mark.parametrize(
    "path",
    [
        "/plans/%3Cimg%20src=x%3E",
        "/calibrations/%E0%A4%A",
        "/plans/__proto__",
        "/jobs/%00",
        "/compare?plan=%3Cscript%3E&plan=%FF",
        "/topologies/" + "x" * 4000,
    ],
)
def test_addresses_that_somebody_made_up_are_answered(tab: Page, site: Site, path: str) -> None:
    tab.goto(site.url + path)
    expect(tab.get_by_role("alert")).to_be_visible()
    assert tab.locator(FOREIGN).count() == 0
    assert overflow(tab) == []
