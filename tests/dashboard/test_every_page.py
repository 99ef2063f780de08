"""What holds on every page of the dashboard: links that can be kept, the way back, the keyboard."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from playwright.sync_api import Page, expect

from meshwright.client import Client
from meshwright.schema.sweep import Sweep
from tests.dashboard.conftest import Site, axe, overflow, themes, visit
from tests.dashboard.measured import measure
from tests.dashboard.test_attacks import PATHS, QUERIES

# what the keyboard cannot leave is a trap; a page with more stops than this has one
STOPS = 400
FOCUSED = """() => {
    const own = document.activeElement;
    if (own === document.body) return null;
    const box = own.getBoundingClientRect();
    const style = getComputedStyle(own);
    const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
    window.stops = window.stops || new Map();
    if (!stops.has(own)) stops.set(own, stops.size);
    return {at: stops.get(own), what: own.outerHTML.slice(0, 120), seen,
            is_named: Boolean(own.ariaLabel || own.textContent.trim() || own.labels?.length
                || own.getAttribute('aria-labelledby') || own.placeholder || own.title),
            has_size: box.width > 0 && box.height > 0};
}"""

# as a click on a link to the address
FOLLOW = """(to) => {
    const link = document.createElement("a");
    link.href = to;
    document.body.append(link);
    link.click();
    link.remove();
}"""

# until nothing of the page has changed for a while
QUIET = """() => new Promise((done) => {
    let timer;
    const watch = new MutationObserver(wait);
    function wait() {
        clearTimeout(timer);
        timer = setTimeout(() => { watch.disconnect(); done(); }, 250);
    }
    watch.observe(document.querySelector("#view"),
        {subtree: true, childList: true, characterData: true, attributes: true});
    wait();
})"""


@dataclass(frozen=True)
class Ids:
    """Of what pages show, by the names of path parameters."""

    plan: str
    other: str
    job: str
    graph: str
    topology: str
    calibration: str
    sweep: str

    def address(self, path: str) -> str:
        return (path + QUERIES.get(path, "")).format(**vars(self))


@pytest.fixture(scope="module")
def ids(site: Site) -> Ids:
    plan, other = site.plans["face"], site.plans["llama"]
    measured = measure(site.url, other)
    with Client(site.url) as client:
        job = next(own["id"] for own in client.jobs() if own.get("plan") == plan)
        graph = client.asked_for(plan)["graph"]
        sweep = client.begin_sweep(graph, Sweep(topologies=("h100-1x{1,2}",)))["id"]
        client.follow_sweep(sweep)
    return Ids(plan, other, job, graph, measured.topology, measured.calibration, sweep)


def text_of(page: Page) -> str:
    """The page's text once all of it is there, without what changes with the clock."""
    page.wait_for_load_state("networkidle")
    page.evaluate(QUIET)  # the events of a search come one by one
    expect(page.get_by_role("status").filter(has_text="Loading")).to_have_count(0)
    own = page.locator("#view").inner_text()
    return re.sub(r"\b(now|\d+\s(s|min|h|d) ago)\b", "", own)


@pytest.mark.rotating
@pytest.mark.parametrize("path", PATHS)
def test_a_link_that_was_kept_shows_the_same_again(
    page: Page, site: Site, ids: Ids, path: str
) -> None:
    url = site.url + ids.address(path)
    visit(page, url)
    expect(page.get_by_role("alert")).to_have_count(0)
    before, title = text_of(page), page.title()
    assert title.endswith("Meshwright")
    page.reload()
    page.wait_for_selector("#view > [data-shown]")
    expect(page).to_have_title(title)
    assert text_of(page) == before
    assert overflow(page) == []
    for theme in themes(page):
        assert axe(page) == [], theme


@pytest.mark.rotating
@pytest.mark.parametrize("path", PATHS)
def test_the_keyboard_gets_everywhere_and_out_again(
    page: Page, site: Site, ids: Ids, path: str
) -> None:
    visit(page, site.url + ids.address(path))
    stops: list[int] = []
    for _ in range(STOPS):
        page.keyboard.press("Tab")
        own = page.evaluate(FOCUSED)
        if own is None or (stops and own["at"] == 0):
            break
        assert own["seen"], f"no outline: {own['what']}"
        assert own["is_named"], f"no name: {own['what']}"
        assert own["has_size"], f"not to be seen: {own['what']}"
        if stops and own["at"] == stops[-1] and 'type="date"' in own["what"]:
            continue  # its day, month, year and calendar are stops of their own
        assert own["at"] not in stops, f"focus came back to: {own['what']}"
        stops.append(own["at"])
    else:
        pytest.fail(f"more than {STOPS} stops, the last is {own['what']}")
    assert len(stops) >= 7  # the head alone


def test_back_and_forward_go_where_one_was(page: Page, site: Site, ids: Ids) -> None:
    way = [ids.address(path) for path in PATHS]
    for address in way:
        if address == way[0]:
            visit(page, site.url + address)
            continue
        page.evaluate(FOLLOW, address)
        page.wait_for_selector(f'#view > [data-shown="{address.partition("?")[0]}"]')
    for address in reversed(way[:-1]):
        page.go_back()
        page.wait_for_selector(f'#view > [data-shown="{address.partition("?")[0]}"]')
        expect(page.get_by_role("alert")).to_have_count(0)
    for address in way[1:]:
        page.go_forward()
        page.wait_for_selector(f'#view > [data-shown="{address.partition("?")[0]}"]')


def test_keys_lead_to_the_sections_and_into_a_plan(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/agents")
    for key, path in (
        ("t", "/topologies"),
        ("a", "/agents"),
        ("g", "/graphs"),
        ("s", "/sweeps"),
        ("p", "/"),
    ):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_selector(f'#view > [data-shown="{path}"]')
    page.get_by_role("table", name="Plans").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/plans/plan_*")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")  # where there is a search it has the focus, elsewhere nothing happens
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#view")).to_be_focused()


def test_while_the_service_is_away_a_page_says_so_and_tries_again(page: Page, site: Site) -> None:
    page.route("**/v1/topologies?*", lambda route: route.abort())
    visit(page, f"{site.url}/topologies")
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer")
    page.unroute("**/v1/topologies?*")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Calibrations")).to_be_visible()
