"""The communication of a plan: longest first, each row leads to its op in the graph."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from meshwright.client import Client
from tests.dashboard.conftest import Site, check, visit


def test_the_longest_redistribution_is_found_and_leads_to_the_graph(page: Page, site: Site) -> None:
    plan = site.plans["mixtral"]
    with Client(site.url) as client:
        found = client.communication(plan)
    visit(page, f"{site.url}/plans/{plan}")
    page.get_by_role("link", name="Communication").click()
    rows = page.get_by_role("table", name="Communication").locator("tbody tr")
    expect(rows).to_have_count(min(20, len(found.groups)))
    expect(rows.first).to_contain_text(found.groups[0].tensor)
    expect(page.get_by_text(re.compile("^Communication takes"))).to_contain_text("exposed")
    check(page, "communication")
    if len(found.groups) > 20:
        page.get_by_role("button", name=re.compile("^Show all")).click()
        expect(rows).to_have_count(len(found.groups))
    page.get_by_role("button", name="Bytes").click()
    most = max(found.groups, key=lambda group: group.step_bytes)
    expect(rows.first).to_contain_text(most.tensor)
    rows.first.get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(rf"/plans/{plan}/graph\?op="))
