"""The verdict on a plan: one that does not fit is called nothing better, whatever is proved."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.schema import Graph, Pipeline
from meshwright.schema.degrees import Degrees
from meshwright.schema.recompute import NO_RECOMPUTE
from tests.dashboard.conftest import ROOT, Site, check, visit
from tests.solver.layered import layered
from tests.solver.small_graphs import topology, toy_calibration


@pytest.fixture(scope="module")
def overfull(site: Site) -> str:
    """A stated strategy, optimal as far as it is open, that needs more than its devices have."""
    graph = read_document(ROOT / "examples" / "graphs" / "llama3-8b.json.gz", Graph)
    with Client(site.url) as client:
        plan = client.plan(graph, "h100-1x4", degrees=Degrees(dp=4)).plan
    assert plan is not None
    assert plan.search.outcome == "optimal"
    assert plan.cost.memory_bytes.total > plan.cost.memory_bytes.capacity
    return plan.id


def is_overfull(own: Locator) -> None:
    """It says so, in the color of what is bad, and calls nothing optimal in the good one."""
    tag = own.locator(".bad").filter(has_text="does not fit")
    expect(tag).not_to_have_count(0)
    expect(own.locator(".good").filter(has_text="optimal")).to_have_count(0)


def step_gap(site: Site, plan: str) -> re.Pattern[str]:
    """The words for a plan above the bound of every configuration that its request allows."""
    with Client(site.url) as client:
        found = client.get_plan(plan)
    assert found.search.outcome == "optimal"  # of its objective, on its meshes
    assert found.search.step_bound_ns is not None
    share = 100 * (found.cost.step_ns / found.search.step_bound_ns - 1)
    assert 1 <= share < 100
    digits = 2 - (share >= 10)  # three digits in all
    return re.compile(rf"^gap {share:.{digits}f}\s%$")


PAGES = ["", "/graph", "/why", "/timeline", "/front", "/what-if", "/launch"]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_of_the_plan_says_it(page: Page, site: Site, overfull: str, path: str) -> None:
    visit(page, f"{site.url}/plans/{overfull}{path}")
    is_overfull(page.locator(".plan-head"))
    expect(page.locator(".good").filter(has_text="optimal")).to_have_count(0)
    if path == "":
        is_overfull(page.locator(".answers"))
        is_overfull(page.get_by_role("region", name="How sure is that?"))
        expect(page.locator(".answers")).not_to_contain_text("-")
        check(page, "plan-overfull")


def test_the_list_says_it_in_the_row(page: Page, site: Site, overfull: str) -> None:
    visit(page, f"{site.url}/?state=optimal")
    row = page.get_by_role("row").filter(has=page.locator(f'a[href="/plans/{overfull}"]'))
    is_overfull(row)
    fitting = page.get_by_role("row").filter(
        has=page.locator(f'a[href="/plans/{site.plans["face"]}"]')
    )
    expect(fitting.locator(".verdict")).to_have_text(step_gap(site, site.plans["face"]))


def test_the_comparison_says_it_of_its_side(page: Page, site: Site, overfull: str) -> None:
    visit(page, f"{site.url}/compare?plan={site.plans['face']}&plan={overfull}")
    first, second = page.locator(".compare-names > span").all()
    expect(first.locator(".verdict")).to_have_text(step_gap(site, site.plans["face"]))
    is_overfull(second)
    check(page, "compare-overfull")


def test_the_answer_of_the_search_says_it(page: Page, site: Site, overfull: str) -> None:
    with Client(site.url) as client:
        job = next(own["id"] for own in client.jobs() if own.get("plan") == overfull)
    visit(page, f"{site.url}/jobs/{job}")
    is_overfull(page.locator(".answers"))


def test_the_alternatives_say_it_and_it_is_on_no_front(
    page: Page, site: Site, overfull: str
) -> None:
    points = httpx.get(f"{site.url}/v1/plans/{overfull}/alternatives").json()["points"]
    (chosen,) = [own for own in points if own["kind"] == "chosen"]
    assert not chosen["on_front"]
    visit(page, f"{site.url}/plans/{overfull}/front")
    table = page.get_by_role("table", name="Alternatives")
    is_overfull(table.get_by_role("row").filter(has_text="it is the plan"))


def test_what_was_refused_for_want_of_memory_lies_beyond_the_limit(page: Page, site: Site) -> None:
    with Client(site.url) as client:
        devices = topology(4, memory_bytes=120_000)
        own, wishes = toy_calibration(), Pipeline(ranks=2)
        plan = client.plan(
            layered(4), devices, calibration=own, pipeline=wishes, recompute=NO_RECOMPUTE
        ).plan
    assert plan is not None
    (refused, *_) = [own for own in plan.search.considered if "no plan that fits" in own.why]
    visit(page, f"{site.url}/plans/{plan.id}/front")
    drawing = page.get_by_role("group", name="Alternatives by memory and time")
    limit = float(drawing.locator("line[stroke-dasharray]").get_attribute("x1") or 0)
    lefts = {}
    for kind in (refused.configuration, plan.name):
        mark = drawing.locator(f'.point[aria-label^="{kind}:"]').first
        box = mark.evaluate("own => { const {x, width} = own.getBBox(); return x + width / 2; }")
        lefts[kind] = box
    assert lefts[plan.name] < limit < lefts[refused.configuration]
    row = page.get_by_role("table", name="Alternatives").get_by_role("row")
    is_overfull(row.filter(has_text=refused.configuration).filter(has_text="no plan that fits"))
    check(page, "front-overfull")


def test_the_list_calls_no_plan_optimal_without_its_warnings(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/?state=optimal")
    entries = httpx.get(f"{site.url}/v1/plans", params={"outcome": "optimal"}).json()["plans"]
    warned = {own["id"]: own["warnings"] for own in entries if own["warnings"]}
    assert warned
    for plan, codes in warned.items():
        row = page.get_by_role("row").filter(has=page.locator(f'a[href="/plans/{plan}"]'))
        expect(row.locator(".tag.good").filter(has_text="optimal")).to_have_count(0)
        tags = [f"! {code.replace('-', ' ')}" for code in codes]
        expect(row.locator(".tag.warn")).to_have_text(tags)
