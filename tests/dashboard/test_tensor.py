"""The blocks of a tensor on the devices; names of tensors in the graph lead there."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import httpx
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import Site, check, visit


def test_a_tensor_of_the_graph_leads_to_its_blocks(page: Page, site: Site) -> None:
    plan = site.plans["face"]
    visit(page, f"{site.url}/plans/{plan}/graph?open=head")
    page.locator(".graph .move").first.click()
    name = page.get_by_label("Selected").locator('a[href*="/tensor?"]').first
    tensor = name.inner_text()
    name.click()
    page.wait_for_url("**/tensor?*")
    drawn = layouts(site, plan, tensor)
    expect(page.get_by_role("heading", name=drawn["tensor"], exact=True)).to_be_visible()
    value = page.get_by_role("table", name="Value: blocks", exact=True)
    expect(value.locator("td").first).to_have_text(text_of(drawn["value"], 0))
    assert value.locator("td:not(.more)").count() == len(drawn["value"]["devices"]) * len(
        drawn["value"]["devices"][0]
    )


def test_each_collective_stands_before_the_blocks_after_it(page: Page, site: Site) -> None:
    plan = site.plans["face"]
    found = httpx.get(f"{site.url}/v1/plans/{plan}/redistributions").json()["redistributions"]
    moved = next(own for own in found if own.get("forward"))
    visit(page, f"{site.url}/plans/{plan}/tensor?{urlencode({'name': moved['tensor']})}")
    drawn = layouts(site, plan, moved["tensor"])
    changes = [change for path in drawn["paths"] for change in path["changes"]]
    assert changes
    expect(page.locator("p.change")).to_have_count(len(changes))
    for place, change in enumerate(changes):
        kind = change["kind"].replace("_", "-")
        expect(page.locator("p.change").nth(place)).to_contain_text(kind)
        after = page.locator("p.change").nth(place).locator("+ figure")
        expect(after.locator("td").first).to_have_text(text_of(change["after"], 0))
    check(page, "tensor")


def layouts(site: Site, plan: str, tensor: str) -> dict[str, Any]:
    answer = httpx.get(f"{site.url}/v1/plans/{plan}/tensor-layouts", params={"tensor": tensor})
    assert answer.status_code == 200
    return dict(answer.json())


def text_of(blocks: dict[str, Any], row: int) -> str:
    """The text of the first block of a row."""
    sums = "Σ " if blocks.get("partial") else ""
    return sums + str(blocks["devices"][row][0]).replace("-", "\u2013")


def test_a_tensor_that_the_plan_lacks_is_named(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['face']}/tensor?name=nowhere")
    expect(page.get_by_role("alert")).to_contain_text("no tensor 'nowhere'")
