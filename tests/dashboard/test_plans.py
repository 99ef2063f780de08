"""The shelf: what it shows of plans, filters in the address, labels, two to compare."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from meshwright.client import Client
from meshwright.schema import Graph, Setup, Topology
from tests.dashboard.conftest import Site, check, visit
from tests.service.samples import GRAPH, TOPOLOGY

HOSTILE = "<img src=x onerror=alert(1)> \u0645\u0631\u062d" + "n" * 400


def rows(page: Page) -> Locator:
    return page.get_by_role("table", name="Plans").locator("tbody tr")


def row(page: Page, name: str) -> Locator:
    return rows(page).filter(has_text=name)


@pytest.fixture(scope="module", autouse=True)
def _alone(site: Site) -> None:
    """Of the site's plans only those that all tests know: others asked for more."""
    with Client(site.url) as client:
        for plan in list(client.plans()):
            if plan["id"] not in site.plans.values():
                client.delete_plan(plan["id"])


@pytest.fixture(scope="module")
def hostile(site: Site) -> str:
    """A small plan whose graph and topology have names that would like to be more than names."""
    graph = Graph.from_dict({**GRAPH, "name": HOSTILE})
    with Client(site.url) as client:
        answer = client.plan(graph, Topology.from_dict({**TOPOLOGY, "name": HOSTILE}))
    assert answer.plan is not None
    return answer.plan.id


@pytest.mark.usefixtures("hostile")
def test_plans_have_their_numbers_with_units(page: Page, site: Site) -> None:
    visit(page, site.url)
    own = row(page, "llama3-8b")
    with Client(site.url) as client:
        cost = client.get_plan(site.plans["llama"]).cost
    free = (cost.memory_bytes.capacity - cost.memory_bytes.total) / 2**30
    expect(own).to_contain_text(f"{free:.2f}\u00a0GiB")
    expect(own).to_contain_text(re.compile(r"\d\u00a0(s|ms)"))
    expect(own).to_contain_text(re.compile(r"\d\u00a0%"))
    expect(own).to_contain_text("h100-8x8")
    check(page, "plans")


@pytest.mark.usefixtures("hostile")
def test_names_are_text(page: Page, site: Site) -> None:
    visit(page, site.url)
    expect(row(page, "<img src=x").first).to_contain_text("onerror")
    assert page.locator("#view img").count() == 0


@pytest.mark.usefixtures("hostile")
def test_filters_stand_in_the_address(page: Page, site: Site) -> None:
    visit(page, site.url)
    page.keyboard.press("/")
    expect(page.get_by_label("Model")).to_be_focused()
    page.keyboard.type("MIXTRAL")
    expect(rows(page)).to_have_count(1)
    expect(page).to_have_url(re.compile(r"model=MIXTRAL"))
    page.reload()
    expect(rows(page)).to_have_count(1)
    expect(page.get_by_label("Model")).to_have_value("MIXTRAL")
    page.get_by_label("Search", exact=True).select_option("exact")
    expect(page.get_by_text("Nothing here is so")).to_be_visible()
    page.get_by_role("button", name="clear all filters").click()
    expect(rows(page)).to_have_count(4)
    page.get_by_label("Topology").select_option(label="h100-8x8")
    expect(rows(page)).to_have_count(3)
    assert "topology=topo_" in page.url


def test_plans_are_looked_for_by_the_day_they_were_made(page: Page, site: Site) -> None:
    visit(page, site.url)
    count = rows(page).count()
    days = page.evaluate("""() => [0, 1].map((later) => {
        const at = new Date();
        at.setDate(at.getDate() + later);
        return at.toLocaleDateString("sv"); // year-month-day, in the browser's zone
    })""")
    page.get_by_label("From").fill(days[1])
    expect(page.get_by_text("Nothing here is so")).to_be_visible()
    page.get_by_label("From").fill("2026-01-01")
    page.get_by_label("To", exact=True).fill(days[1])
    expect(rows(page)).to_have_count(count)
    expect(page).to_have_url(re.compile(r"from=2026-01-01&to="))
    page.reload()
    expect(page.get_by_label("From")).to_have_value("2026-01-01")
    page.get_by_label("To", exact=True).fill("2026-01-02")
    expect(page.get_by_text("Nothing here is so")).to_be_visible()
    page.get_by_label("State").select_option("failed")
    expect(page.get_by_text("Nothing here is so")).to_be_visible()


def test_labels_are_changed_in_place(page: Page, site: Site) -> None:
    visit(page, site.url)
    own = row(page, "face-head")
    own.get_by_role("button", name="Labels of").click()
    page.keyboard.type("for the run in May")
    page.keyboard.press("Enter")
    expect(own.get_by_role("button", name="Take away for the run in May")).to_be_visible()
    page.keyboard.type(" \u0007bell")
    page.keyboard.press("Enter")
    expect(own.get_by_role("alert")).to_contain_text("printable")
    page.keyboard.press("Escape")
    expect(own.get_by_role("button", name="Labels of")).to_be_focused()
    page.get_by_label("Label", exact=True).fill("*May")
    expect(rows(page)).to_have_count(1)
    own.get_by_role("button", name="Labels of").click()
    own.get_by_role("button", name="Take away for the run in May").click()
    own.get_by_role("button", name="Done").click()
    with Client(site.url) as client:
        assert client.labels(site.plans["face"]) == ()


def test_selected_plans_lead_to_their_comparison(page: Page, site: Site) -> None:
    visit(page, site.url)
    for name in ("llama3-8b", "mixtral-8x7b"):
        row(page, name).get_by_role("checkbox").check()
    wanted = f"/compare?plan={site.plans['llama']}&plan={site.plans['mixtral']}"
    expect(page.get_by_role("link", name="Compare the two")).to_have_attribute("href", wanted)
    row(page, "face-head").focus()
    page.keyboard.press("x")
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(3)
    page.reload()
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(3)
    plans = ",".join(site.plans[name] for name in ("llama", "mixtral", "face"))
    link = page.get_by_role("link", name="Compare the 3")
    expect(link).to_have_attribute("href", f"/compare?plans={plans}")
    page.keyboard.press("c")
    expect(page.get_by_role("heading", name="Compare 3 plans")).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Select none").click()
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(0)


def test_plans_are_dots_that_are_chosen_by_click_key_and_rectangle(page: Page, site: Site) -> None:
    visit(page, site.url)
    page.get_by_text("Chart", exact=True).click()
    expect(page).to_have_url(re.compile("chart=open"))
    chart = page.get_by_role("group", name=re.compile("^throughput of a device against memory"))
    dots = chart.get_by_role("button")
    with Client(site.url) as client:
        plans = list(client.plans())
    placed = [plan for plan in plans if plan["figures"]["samples_per_s"]]
    expect(dots).to_have_count(len(placed))
    check(page, "plans-chart")
    chart.get_by_role("button", name=re.compile("^llama3-8b")).first.click()
    expect(row(page, "llama3-8b").get_by_role("checkbox")).to_be_checked()
    expect(page).to_have_url(re.compile(f"selected={site.plans['llama']}"))
    expect(chart.locator("[aria-pressed=true]:focus")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("checkbox", checked=True, name=re.compile("^Select"))).to_have_count(0)
    before = page.evaluate("document.activeElement.dataset.at")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    after = page.evaluate("document.activeElement.dataset.at")
    assert {before, after} <= {str(at) for at in range(len(placed))}
    assert chart.locator('[tabindex="0"]').count() == 1
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 60, box["y"] + 4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] - 4, steps=4)
    page.mouse.up()
    chosen = page.locator("input[data-plan]:checked")
    expect(chosen).to_have_count(min(8, len(placed)))
    page.get_by_label("Up").select_option(label="step")
    page.get_by_label("Right").select_option(label="devices")
    expect(page).to_have_url(re.compile("y=step&x=devices"))
    page.reload()
    expect(page.get_by_role("group", name=re.compile("^step against devices"))).to_be_visible()


def test_the_chart_follows_the_filter(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/?chart=open&model=mixtral")
    expect(page.get_by_text("1 plans.")).to_be_visible()
    page.get_by_label("Model").fill("no such model")
    expect(page.get_by_role("heading", name="No figures")).to_be_visible()


def test_columns_are_chosen_and_remembered(page: Page, site: Site) -> None:
    visit(page, site.url)
    heads = page.get_by_role("table", name="Plans").get_by_role("columnheader")
    by_default = heads.all_inner_texts()
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("checkbox", name="Gap").uncheck()
    page.get_by_role("checkbox", name="Devices").check()
    expect(page.get_by_role("columnheader", name="Devices")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Gap")).to_have_count(0)
    expect(page).to_have_url(re.compile("columns=.*devices"))
    visit(page, site.url)  # another visit, without the address
    expect(page.get_by_role("columnheader", name="Devices")).to_be_visible()
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("button", name="Defaults").click()
    expect(page.get_by_role("columnheader", name="Devices")).to_have_count(0)
    assert heads.all_inner_texts() == by_default
    assert "columns" not in page.url


def test_plans_of_one_model_are_told_apart_by_their_requests(page: Page, site: Site) -> None:
    visit(page, site.url)
    with Client(site.url) as client:
        told = {plan["id"]: plan["differs_in"] for plan in client.plans()}
    assert all(told[plan] == "" for plan in site.plans.values())
    listed = httpx.get(f"{site.url}/v1/plans?page_size=50").json()
    listed["plans"][0]["differs_in"] = "batch 512 · tp 8 · reserve 20 %"
    page.route("**/v1/plans?*", lambda route: route.fulfill(json=listed))
    visit(page, site.url)
    expect(rows(page).first).to_contain_text("batch 512 · tp 8 · reserve 20 %")


def test_a_plan_that_comes_while_one_looks_takes_its_place_and_no_focus(
    page: Page, site: Site
) -> None:
    visit(page, site.url)
    before = rows(page).count()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.evaluate("document.activeElement.mark = 'the same element'")
    with Client(site.url) as client:
        answer = client.plan(
            Graph.from_dict(GRAPH), Topology.from_dict(TOPOLOGY), setup=Setup(global_batch=64)
        )
    assert answer.plan is not None
    expect(rows(page)).to_have_count(before + 1)
    assert page.evaluate("document.activeElement.mark") == "the same element"
    page.keyboard.press("x")
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(1)


def test_older_plans_are_a_page_further(page: Page, site: Site) -> None:
    page.route(
        "**/v1/plans?*",
        lambda route: route.continue_(url=route.request.url.replace("page_size=50", "page_size=2")),
    )
    visit(page, site.url)
    expect(rows(page)).to_have_count(2)
    first = rows(page).first.inner_text()
    page.get_by_role("link", name="Older").click()
    expect(page).to_have_url(re.compile("page="))
    expect(page.get_by_role("link", name="Newest")).to_be_visible()
    expect(rows(page).first).not_to_have_text(first)
    page.go_back()
    expect(page.get_by_role("link", name="Newest")).to_have_count(0)


def test_a_service_that_is_away_is_said_and_the_list_stays(page: Page, site: Site) -> None:
    visit(page, site.url)
    shown = rows(page).count()
    page.route("**/v1/*", lambda route: route.abort())
    expect(page.get_by_text("this page tries again")).to_be_visible()
    expect(rows(page)).to_have_count(shown)
    page.unroute("**/v1/*")
    expect(page.get_by_text("this page tries again")).to_be_hidden()
