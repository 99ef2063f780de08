"""Searches under way: live, cancelled, broken off; and what came of those that ended."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.dashboard.conftest import Site, check, visit
from tests.service.conftest import server
from tests.service.samples import request
from tests.solver.cost_graph_files import CONTEST_EXAMPLE

PLAN = "/v1/plan?fresh=true"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service whose searches go on until they are cancelled."""
    planner = "tests.dashboard.planners:by_name"
    folder = tmp_path_factory.mktemp("jobs")
    with server(folder, planner=planner) as (url, _):
        yield Site(url, {}, folder)


@pytest.fixture(autouse=True)
def _ends_with_the_test(site: Site) -> Iterator[None]:
    """A search that nobody cancels is in the way of the next."""
    yield
    open_ = httpx.get(f"{site.url}/v1/jobs", params={"state": ["queued", "running"]})
    for own in open_.json()["jobs"]:
        httpx.post(f"{site.url}/v1/jobs/{own['id']}/cancel")
        httpx.get(f"{site.url}/v1/jobs/{own['id']}", params={"wait": 60})


@pytest.fixture
def job(site: Site) -> str:
    return asked(site)


def asked(site: Site, name: str = "two layers", **more: Any) -> str:
    body = request(**more)
    body["graph"]["name"] = name
    answer = httpx.post(site.url + PLAN, json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def under_way(page: Page) -> Locator:
    return page.get_by_role("table", name="Searches under way").locator("tbody tr")


def cancel(page: Page, button: str) -> None:
    """Press a button that cancels, and answer the question."""
    page.get_by_role("button", name=button).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the search").click()


def state(site: Site, job: str) -> str:
    return str(httpx.get(f"{site.url}/v1/jobs/{job}").json()["state"])


def test_the_list_shows_how_far_a_search_is_and_leads_to_it(
    page: Page, site: Site, job: str
) -> None:
    visit(page, site.url)
    expect(page.get_by_role("status").get_by_text("1 search under way")).to_be_visible()
    expect(under_way(page)).to_contain_text(re.compile(r"mesh \d+"))
    expect(under_way(page)).to_contain_text(re.compile(r"\d\u00a0(ns|µs|ms)"))
    check(page, "searches")
    page.get_by_role("button", name="Cancel").focus()
    before = under_way(page).inner_text()
    expect(under_way(page)).not_to_have_text(before)
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    under_way(page).focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.url}/jobs/{job}")


def test_a_search_comes_closer_while_one_looks(page: Page, site: Site, job: str) -> None:
    visit(page, f"{site.url}/jobs/{job}")
    curve = page.get_by_role("img", name="Cost that the search minimises")
    expect(curve).to_be_visible()
    some = curve.locator("circle").count()
    expect(curve.locator("circle").nth(some + 3)).to_be_attached()
    expect(page.get_by_text("lower bound of the meshes searched so far")).to_be_visible()
    expect(page.get_by_text("best plan of each pass", exact=True)).to_be_visible()
    expect(page.get_by_role("table", name="Phases")).to_contain_text("mesh 0")
    check(page, "job-running")
    page.reload()
    expect(curve).to_be_visible()


def test_a_cancel_waits_for_no_search_and_the_best_plan_is_kept(
    page: Page, site: Site, job: str
) -> None:
    visit(page, f"{site.url}/jobs/{job}")
    expect(page.get_by_role("img", name="Cost that")).to_be_visible()
    started = time.monotonic()
    cancel(page, "Cancel the search")
    expect(page.get_by_role("status").get_by_text("cancelled")).to_be_visible()
    assert time.monotonic() - started < 10  # the search goes on for minutes
    expect(page.get_by_text("The best plan until then is kept")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel the search")).to_have_count(0)
    expect(page.get_by_role("img", name="Cost that")).to_be_visible()
    check(page, "job-cancelled")
    page.get_by_role("link", name="Open the plan").click()
    expect(page.get_by_role("heading", name=re.compile("two layers"))).to_be_visible()


@pytest.mark.parametrize("key", ["Space", "Enter"])
def test_a_key_pressed_on_a_running_search_cancels_nothing(
    page: Page, site: Site, job: str, key: str
) -> None:
    visit(page, f"{site.url}/jobs/{job}")
    expect(page.get_by_role("img", name="Cost that")).to_be_visible()
    page.wait_for_timeout(2500)  # the head is drawn again every second
    assert page.evaluate("document.activeElement.tagName") != "BUTTON"
    page.keyboard.press(key)
    page.wait_for_timeout(500)
    assert state(site, job) == "running"


def test_a_cancel_is_asked_about_with_the_focus_on_the_way_back(
    page: Page, site: Site, job: str
) -> None:
    visit(page, f"{site.url}/jobs/{job}")
    button = page.get_by_role("button", name="Cancel the search")
    button.focus()
    page.wait_for_timeout(1500)
    expect(button).to_be_focused()  # who is there stays there
    page.keyboard.press("Space")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Keep searching")).to_be_focused()
    check(page, "job-cancel")
    page.keyboard.press("Space")
    expect(dialog).to_have_count(0)
    assert state(site, job) == "running"
    button.click()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert state(site, job) == "running"


def test_a_search_is_cancelled_from_the_list_after_a_question(
    page: Page, site: Site, job: str
) -> None:
    visit(page, site.url)
    expect(under_way(page)).to_have_count(1)
    page.get_by_role("button", name="Cancel", exact=True).click()
    assert state(site, job) == "running"
    page.get_by_role("dialog").get_by_role("button", name="Cancel the search").click()
    expect(under_way(page)).to_have_count(0)
    assert state(site, job) == "cancelled"


def test_a_list_loses_the_search_and_gets_its_plan(page: Page, site: Site) -> None:
    visit(page, site.url)
    plans = page.get_by_role("table", name="Plans").locator("tbody tr")
    before = plans.count()
    made = asked(site, setup={"global_batch": 24})
    expect(under_way(page)).to_have_count(1)
    expect(under_way(page)).to_contain_text("mesh ")
    httpx.post(f"{site.url}/v1/jobs/{made}/cancel")
    expect(under_way(page)).to_have_count(0)
    expect(plans).to_have_count(before + 1)


def test_a_stream_that_breaks_off_is_taken_up_behind_the_last_event(
    page: Page, site: Site, job: str
) -> None:
    heard: list[str | None] = []

    def break_off(route: Route) -> None:
        heard.append(route.request.headers.get("last-event-id"))
        if len(heard) > 1:
            route.continue_()
            return
        said = 'event: state\ndata: {"at":"2026-11-23T06:00:00Z","attempt":0,"state":"queued"}\n'
        route.fulfill(content_type="text/event-stream", body=f"{said}id: 1\n\n")

    page.route("**/events", break_off)
    visit(page, f"{site.url}/jobs/{job}")
    expect(page.get_by_role("img", name="Cost that")).to_be_visible()
    assert heard[:2] == [None, "1"]


@pytest.mark.parametrize(
    ("name", "says"),
    [("broken", "a fault of Meshwright's own"), ("dying", "Every attempt ended without an answer")],
)
def test_a_search_that_failed_says_why_and_what_to_do(
    page: Page, site: Site, name: str, says: str
) -> None:
    made = asked(site, name)
    visit(page, f"{site.url}/jobs/{made}")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_text(says)).to_be_visible()
    check(page, f"job-{name}")
    visit(page, f"{site.url}/?state=failed")
    rows = page.get_by_role("table", name="Searches").locator("tbody tr")
    expect(rows.filter(has_text=name).first).to_be_visible()
    expect(page.get_by_label("Label", exact=True)).to_be_disabled()


def test_a_search_that_was_cut_short_shows_the_plan_that_was_kept_and_why(
    page: Page, site: Site
) -> None:
    made = asked(site, "cut short")
    visit(page, f"{site.url}/jobs/{made}")
    expect(page.get_by_text("until its search was cut short")).to_be_visible()
    expect(page.get_by_text("the search takes more than")).to_be_visible()
    expect(page.get_by_role("link", name="Open the plan")).to_be_visible()
    check(page, "job-cut-short")


def test_a_job_that_is_not_there_says_so(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/jobs/job_0")
    expect(page.get_by_role("alert")).to_contain_text("no job has the id")


def test_a_search_over_a_cost_graph_is_shown_to_its_end(site: Site, page: Page) -> None:
    body = {"problem": CONTEST_EXAMPLE, "engine": "exact"}
    job = httpx.post(f"{site.url}/v1/cost-graphs:solve", json=body).json()["id"]
    visit(page, f"{site.url}/jobs/{job}")
    expect(page.get_by_role("heading", name="example")).to_be_visible()
    expect(page.get_by_text("optimal")).to_be_visible(timeout=60_000)
    expect(page.get_by_text("445", exact=True)).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the solution").click()
    assert saved.value.suggested_filename.startswith("solution_")
    check(page, "job-of-a-cost-graph")
