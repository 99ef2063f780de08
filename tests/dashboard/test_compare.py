"""Two plans beside each other, and what else could have been a plan."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.schema import Graph, Pipeline
from tests.dashboard.conftest import ROOT, Site, check, visit


@pytest.fixture(scope="module")
def other(site: Site) -> str:
    """Another plan of the face head on the same cluster."""
    graph = read_document(ROOT / "examples" / "graphs" / "face-head.json.gz", Graph)
    with Client(site.url) as client:
        found = client.plan(graph, "h100-8x8", solver="recursive_programming").plan
    assert found is not None
    return found.id


def test_only_what_differs_is_shown(page: Page, site: Site, other: str) -> None:
    one = site.plans["face"]
    visit(page, f"{site.url}/compare?plan={one}&plan={other}")
    found = httpx.get(f"{site.url}/v1/comparisons?plan={one}&plan={other}").json()
    rows = page.get_by_role("table", name="Ops that differ").get_by_role("row")
    expect(rows).to_have_count(1 + min(40, len(found["differences"])))
    expect(page.get_by_text("ops differ in nothing")).to_contain_text(str(found["alike"]))
    expect(page.get_by_role("table", name="Time")).to_contain_text("step")
    shorter = "B" if found["second"]["step_ns"] < found["first"]["step_ns"] else "A"
    expect(page.get_by_text(f"{shorter} has the shorter step")).to_be_visible()
    check(page, "compare")


def test_what_was_requested_differently_stands_above_the_totals(
    page: Page, site: Site, other: str
) -> None:
    visit(page, f"{site.url}/compare?plan={site.plans['face']}&plan={other}")
    table = page.get_by_role("table", name="Requested differently")
    expect(table).to_contain_text("solver")
    expect(table).to_contain_text("recursive_programming")
    visit(page, f"{site.url}/compare?plan={site.plans['face']}&plan={site.plans['llama']}")
    expect(table).to_contain_text("graph")


def test_sides_are_swapped_and_the_address_says_so(page: Page, site: Site, other: str) -> None:
    one = site.plans["face"]
    visit(page, f"{site.url}/compare?plan={one}&plan={other}")
    before = page.get_by_role("table", name="Time").inner_text()
    page.get_by_role("button", name="Swap").click()
    page.wait_for_url(f"**/compare?plan={other}&plan={one}")
    expect(page.get_by_role("table", name="Time")).not_to_have_text(before)
    page.go_back()
    page.wait_for_url(f"**/compare?plan={one}&plan={other}")
    page.reload()
    expect(page.get_by_role("table", name="Time")).to_be_visible()


def test_kinds_of_difference_are_left_out(page: Page, site: Site, other: str) -> None:
    visit(page, f"{site.url}/compare?plan={site.plans['face']}&plan={other}")
    rows = page.get_by_role("table", name="Ops that differ").get_by_role("row")
    expect(rows.nth(1)).to_be_visible()
    for box in page.get_by_role("checkbox").all():
        box.uncheck()
    expect(rows).to_have_count(1)


def test_a_plan_is_like_itself(page: Page, site: Site) -> None:
    one = site.plans["face"]
    visit(page, f"{site.url}/compare?plan={one}&plan={one}")
    expect(page.get_by_text("No op differs.")).to_be_visible()


def test_two_are_chosen_on_the_page(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/compare")
    expect(page.get_by_role("heading", name="Choose two plans")).to_be_visible()
    page.get_by_label("A", exact=True).select_option(site.plans["llama"])
    page.get_by_label("B", exact=True).select_option(site.plans["mixtral"])
    expect(page.get_by_role("table", name="What they are")).to_contain_text("graph")


def test_the_waterfall_leads_from_one_step_to_the_other(page: Page, site: Site, other: str) -> None:
    one = site.plans["face"]
    visit(page, f"{site.url}/compare?plan={one}&plan={other}")
    found = httpx.get(f"{site.url}/v1/comparisons?plan={one}&plan={other}").json()
    chart = page.get_by_role("img", name="Time of a step, from A to B")
    bars = chart.locator("rect")
    expect(bars).to_have_count(2 + len(found["changes"]))
    says = chart.get_attribute("aria-label")
    assert says is not None
    assert all(change["part"] in says for change in found["changes"])
    ends = bars.evaluate_all(
        "all => all.map(({x, width}) => [x, width].map((own) => own.baseVal.value))"
    )
    ends = [(left, left + width) for left, width in ends]
    at = ends[0][1]
    for change, (left, right) in zip(found["changes"], ends[1:-1], strict=True):
        # each bar begins where the one before it ends; a bar is one unit wide at least
        assert at == pytest.approx(left if change["ns"] > 0 else right, abs=1.1)
        at = right if change["ns"] > 0 else left
    assert at == pytest.approx(ends[-1][1], abs=1.1)


def test_changes_by_module_have_a_sum(page: Page, site: Site, other: str) -> None:
    one = site.plans["face"]
    visit(page, f"{site.url}/compare?plan={one}&plan={other}")
    found = httpx.get(f"{site.url}/v1/comparisons?plan={one}&plan={other}").json()
    table = page.get_by_role("table", name="By module", exact=True)
    large = [group for group in found["modules"] if not group.get("small")]
    small = found.get("small_modules")
    expect(table.locator("tbody tr")).to_have_count(len(large) + bool(small) + 1)
    expect(table.locator("tbody tr").last).to_contain_text("all")
    for group in large:
        expect(table).to_contain_text(group["module"] or "outside modules")
    assert small
    page.get_by_text(f"{small['count']} more below 0.1 %").last.click()
    folded = page.get_by_role("table", name="Small changes by module")
    expect(folded.locator("tbody tr")).to_have_count(small["count"])


def test_more_plans_are_a_table_with_a_baseline(page: Page, site: Site, other: str) -> None:
    plans = [site.plans["face"], other, site.plans["llama"]]
    visit(page, f"{site.url}/compare?plans={','.join(plans)}")
    table = page.get_by_role("table", name="Plans side by side")
    expect(table.locator("thead th")).to_have_count(3)
    expect(page.get_by_label("Baseline A")).to_be_checked()
    made = httpx.get(f"{site.url}/v1/comparisons/table", params={"plan": plans}).json()
    marked = sum(len(row["best"]) for row in made["figures"])
    expect(table.get_by_role("img", name="best")).to_have_count(marked)
    expect(table).to_contain_text("Requested differently")
    check(page, "compare-several")
    page.get_by_label("Baseline B").check()
    expect(page).to_have_url(re.compile(f"baseline={other}"))
    page.reload()
    expect(page.get_by_label("Baseline B")).to_be_checked()
    page.get_by_role("button", name="Leave out A").click()
    expect(page).to_have_url(re.compile(rf"/compare\?plan={other}&plan={plans[2]}$"))
    expect(page.get_by_role("table", name="Time")).to_be_visible()


def test_a_further_plan_is_added_to_two(page: Page, site: Site, other: str) -> None:
    visit(page, f"{site.url}/compare?plan={site.plans['face']}&plan={other}")
    page.get_by_label("Add").select_option(site.plans["mixtral"])
    wanted = f"/compare?plans={site.plans['face']},{other},{site.plans['mixtral']}"
    page.wait_for_url(f"**{wanted}")
    expect(page.get_by_role("heading", name="Compare 3 plans")).to_be_visible()


def test_a_plan_that_is_deleted_is_told_of_in_the_table_too(page: Page, site: Site) -> None:
    plans = [site.plans["face"], site.plans["llama"], "plan_" + "0" * 64]
    visit(page, f"{site.url}/compare?plans={','.join(plans)}")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("button", name="Leave out C")).to_be_visible()


def test_alternatives_say_why_they_lost(page: Page, site: Site, other: str) -> None:
    plan = site.plans["face"]
    points = httpx.get(f"{site.url}/v1/plans/{plan}/alternatives").json()["points"]
    assert other in {own.get("plan") for own in points}
    visit(page, f"{site.url}/plans/{plan}/front")
    table = page.get_by_role("table", name="Alternatives")
    for point in points[:3]:
        expect(table).to_contain_text(point["why"])
    check(page, "front")
    page.get_by_role("button", name="face-head: ").first.press("Enter")
    expect(table.locator("[data-at]:focus")).to_have_count(1)
    table.get_by_role("link", name="compare").first.click()
    page.wait_for_url(f"**/compare?plan={plan}&plan={other}")


def test_what_was_considered_is_planned_from_its_row(page: Page, site: Site) -> None:
    graph = read_document(ROOT / "examples" / "graphs" / "face-head.json.gz", Graph)
    with Client(site.url) as client:
        wishes = Pipeline(ranks=2, schedule="1f1b")
        plan = client.plan(graph, "h100-1x4", pipeline=wishes).plan
    assert plan is not None
    visit(page, f"{site.url}/plans/{plan.id}/front")
    considered = plan.search.considered[0].configuration
    row = page.get_by_role("table", name="Alternatives").get_by_role("row", name=considered)
    row.get_by_role("link", name="plan it").click()
    expect(page).to_have_url(re.compile(rf"/plans/{plan.id}/what-if\?.*microbatches="))
    page.get_by_role("button", name="Plan it").click()
    expect(page).to_have_url(re.compile(rf"/compare\?plan={plan.id}&plan=plan_"))
    with Client(site.url) as client:
        found = client.get_plan(page.url.rpartition("=")[2])
    assert considered.endswith(f", {found.microbatches} microbatches")


def test_what_no_request_asks_for_has_no_link(page: Page, site: Site) -> None:
    """As of ranks on certain groups of a cluster, and of plans of earlier versions."""
    plan = site.plans["face"]
    points = [
        {"kind": "chosen", "plan": plan, "name": "it", "step_ns": 1.0, "why": "it is the plan"},
        {"kind": "considered", "name": "stated", "step_ns": 2.0, "why": "takes 2.000 times",
         "asks": {"pipeline": {"ranks": 1, "schedule": None}, "recompute": {"policy": "full"}}},
        {"kind": "considered", "name": "older", "step_ns": 3.0, "why": "takes 3.000 times"},
    ]  # fmt: skip
    made = {"plan": plan, "capacity_bytes": 1 << 30, "points": points}
    page.route("**/alternatives", lambda route: route.fulfill(json=made))
    visit(page, f"{site.url}/plans/{plan}/front")
    table = page.get_by_role("table", name="Alternatives")
    link = table.get_by_role("link", name="plan it")
    expect(link).to_have_count(1)
    said = "pipeline=1&schedule=&recompute=full"
    expect(link).to_have_attribute("href", f"/plans/{plan}/what-if?{said}")
    older = table.get_by_role("row", name="older")
    expect(older.get_by_role("link")).to_have_count(0)
