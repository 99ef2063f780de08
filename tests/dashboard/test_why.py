"""Why an op has its strategy: what the service found out, on the page."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.dashboard.conftest import Site, check, visit


def test_every_strategy_says_what_it_would_do_to_the_whole(page: Page, site: Site) -> None:
    plan = site.plans["face"]
    visit(page, f"{site.url}/plans/{plan}/why")
    expect(page.get_by_role("heading", name="Which op?")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("trunk.conv1")
    with page.expect_response(re.compile(r"/explain\?")) as answer:
        page.keyboard.press("Enter")
    table = page.get_by_role("table", name="Strategies of trunk.conv1")
    expect(table).to_be_visible()
    found = answer.value.json()
    (group,) = found["groups"]
    solved = [own for own in group["alternatives"] if own["verdict"] not in LEFT]
    if len(solved) > AT_FIRST:  # on a busy machine the time is over before
        page.get_by_role("button", name=f"Show all {len(solved)}").click()
    expect(table.get_by_role("row")).to_have_count(1 + len(solved))
    expect(table.get_by_role("row").nth(1)).to_contain_text("chosen")
    expect(page.get_by_text(found["memory"]["why"], exact=True)).to_be_visible()
    assert "op=trunk.conv1" in page.url
    check(page, "why")
    page.reload()
    expect(table).to_be_visible()
    table.get_by_role("link", name="Plan with").first.click()
    page.wait_for_url("**/what-if?pin=trunk.conv1*")


LEFT = ("not solved", "not allowed")
AT_FIRST = 12  # strategies that the page shows


def test_an_op_that_is_not_there_is_named(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['face']}/why?op=nothing*")
    expect(page.get_by_role("alert")).to_contain_text("nothing*")


def test_the_search_is_stopped(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['llama']}/why")
    page.get_by_label("Op, or a glob of ops").fill("model.layers.*.mlp.up_proj")
    page.get_by_role("button", name="Explain").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("heading", name="Stopped")).to_be_visible()
