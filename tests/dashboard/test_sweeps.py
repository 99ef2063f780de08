"""Sweeps: requested from a graph's page, followed, cancelled, continued; sorted lists of plans."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from meshwright.client import Client
from meshwright.schema import Graph
from meshwright.schema.sweep import Sweep
from tests.dashboard.conftest import Site, check, visit
from tests.service.conftest import server
from tests.service.samples import GRAPH


def points(page: Page) -> Locator:
    return page.get_by_role("table", name="Points").locator("tbody tr")


def test_a_sweep_is_asked_for_followed_and_read(page: Page, site: Site, tmp_path: Path) -> None:
    with Client(site.url) as client:
        graph = client.asked_for(site.plans["face"])["graph"]
    visit(page, f"{site.url}/graphs")
    page.get_by_role("row", name="face-head").get_by_role("link", name="Sweep it").click()
    expect(page).to_have_url(f"{site.url}/graphs/{graph}/sweep")
    page.get_by_role("button", name="Plan all points").click()
    expect(page.get_by_text("Name a topology.")).to_be_visible()
    expect(page.get_by_label("Topologies")).to_be_focused()
    page.get_by_label("Topologies").fill("h200-1x{2,4}, b200-1x2")
    page.get_by_label("Prices").fill("h200=2, b200")
    page.get_by_role("button", name="Plan all points").click()
    expect(page.get_by_text("b200 is not like h100=2.5.")).to_be_visible()
    page.get_by_label("Prices").fill("h200=2, b200=4, v100=1")
    page.get_by_role("button", name="Plan all points").click()
    expect(page.get_by_role("alert").first).to_contain_text("the price of 'v100' is of no topology")
    expect(page.get_by_label("Prices")).to_be_focused()
    page.get_by_label("Prices").fill("h200=2, b200=4")
    page.get_by_label("Tokens of the run").fill("1B")
    page.reload()
    expect(page.get_by_label("Topologies")).to_have_value("h200-1x{2,4}, b200-1x2")
    check(page, "sweep-new")
    page.get_by_role("button", name="Plan all points").click()
    page.wait_for_url("**/sweeps/sweep_*")
    expect(page.get_by_text("3 of 3 points have an answer")).to_be_visible()
    expect(points(page)).to_have_count(3)
    expect(page.get_by_text(re.compile("^Fastest: "))).to_be_visible()
    expect(page.get_by_text(re.compile("^Cheapest: "))).to_be_visible()
    check(page, "sweep")
    page.get_by_role("button", name="Step").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    path = tmp_path / "points.csv"
    download.value.save_as(path)
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    with Client(site.url) as client:
        sweep = client.get_sweep(page.url.rpartition("/")[2])
    assert [float(row["step_ns"]) for row in rows] == [
        row["figures"]["step_ns"] for row in sweep["rows"]
    ]
    page.get_by_role("button", name=re.compile("^h200-1x4")).press("Enter")  # a mark of the chart
    expect(page).to_have_url(f"{site.url}/plans/{sweep['rows'][1]['figures']['plan']}")
    visit(page, f"{site.url}/sweeps")
    expect(page.get_by_role("table", name="Sweeps")).to_contain_text("3 of 3")
    expect(page.locator('nav [aria-current="page"]')).to_have_text("Sweeps")
    check(page, "sweeps")


def test_a_running_sweep_is_cancelled_and_gone_on_with(
    context: BrowserContext, tmp_path: Path
) -> None:
    with (
        server(tmp_path, planner="tests.dashboard.planners:improving") as (url, _),
        Client(url) as client,
    ):
        id_ = client.begin_sweep(Graph.from_dict(GRAPH), Sweep(topologies=("h100-1x{2,4}",)))["id"]
        page = context.new_page()
        page.goto(f"{url}/sweeps/{id_}")
        expect(page.get_by_text("0 of 2 points have an answer")).to_be_visible()
        page.get_by_role("button", name="Cancel the sweep").click()
        expect(page.get_by_role("button", name="Keep planning")).to_be_focused()
        page.get_by_role("dialog").get_by_role("button", name="Cancel the sweep").click()
        expect(page.get_by_text("2 of 2 points have an answer")).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_contain_text("cancelled")
        page.get_by_role("button", name="Plan the missing points").click()
        expect(page.get_by_role("button", name="Cancel the sweep")).to_be_visible()
        assert client.get_sweep(id_)["state"] == "running"
        client.cancel_sweep(id_)


def test_plans_are_sorted_by_the_service_in_the_address(page: Page, site: Site) -> None:
    with Client(site.url) as client:
        wanted = [entry["id"] for entry in client.plans(sort="-device_throughput")]
    visit(page, site.url)
    boxes = page.get_by_role("table", name="Plans").locator("input[data-plan]")
    page.get_by_role("button", name="A device").click()
    expect(page).to_have_url(re.compile(r"sort=-device_throughput"))
    expect(boxes.first).to_have_attribute("data-plan", wanted[0])
    head = page.get_by_role("columnheader", name="A device")
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(page.get_by_role("button", name="A device")).to_be_focused()
    page.reload()
    expect(head).to_have_attribute("aria-sort", "descending")
    found = boxes.evaluate_all("all => all.map((own) => own.dataset.plan)")
    assert found == wanted[:50]
    page.get_by_role("button", name="A device").click()
    expect(page).to_have_url(re.compile(r"sort=device_throughput"))
    page.get_by_role("button", name="Step").click()
    expect(page).to_have_url(re.compile(r"sort=step"))  # the shortest first


@pytest.mark.parametrize(("memory", "query"), [("10", {"headroom": 0.1}), ("not", {"fits": False})])
def test_plans_are_filtered_by_their_memory(
    page: Page, site: Site, memory: str, query: dict[str, float]
) -> None:
    with Client(site.url) as client:
        wanted = len(list(client.plans(**query)))
    visit(page, site.url)
    page.get_by_label("Memory").select_option(memory)
    expect(page).to_have_url(re.compile(f"memory={memory}"))
    if not wanted:
        expect(page.get_by_text("Nothing here is so")).to_be_visible()
        return
    rows = page.get_by_role("table", name="Plans").locator("tbody tr")
    expect(rows).to_have_count(min(50, wanted))
