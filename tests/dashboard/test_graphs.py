"""Graphs that are stored, and a first plan of one, asked for from its page."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from meshwright.client import Client
from tests.dashboard.conftest import Site, check, visit


def test_a_stored_graph_is_planned_from_its_page(page: Page, site: Site) -> None:
    with Client(site.url) as client:
        graph = client.asked_for(site.plans["face"])["graph"]
        summary = next(own for own in client.graphs() if own["id"] == graph)
    visit(page, f"{site.url}/graphs")
    row = page.get_by_role("table", name="Graphs").get_by_role("row", name=summary["name"])
    expect(row).to_contain_text(f"{summary['summary']['ops']:,}")
    check(page, "graphs")
    expect(page.locator('nav [aria-current="page"]')).to_have_text("Graphs")
    row.get_by_role("link", name="Plan it").click()
    expect(page).to_have_url(f"{site.url}/graphs/{graph}/plan")
    ask = page.get_by_role("button", name="Plan it")
    expect(ask).to_be_disabled()
    page.get_by_label("Topology").fill("h100-1x4")
    said = page.get_by_role("group", name="What is asked")
    expect(said).to_contain_text(re.compile(r"Topology\s*h100-1x4"))
    check(page, "graph-plan")
    ask.click()
    expect(page).to_have_url(re.compile(r"/jobs/job_"))
    page.locator('a[href^="/plans/plan_"]').first.click()
    expect(page).to_have_url(re.compile(r"/plans/plan_"))
    with Client(site.url) as client:
        asked = client.asked_for(page.url.rpartition("/")[2])
        assert asked["graph"] == graph
        assert client.get_topology(asked["topology"]).name == "h100-1x4"
