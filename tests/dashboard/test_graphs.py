"""Graphs that are stored, and a first plan of one, asked for from its page."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

from playwright.sync_api import Page, expect

from meshwright.client import Client
from tests.dashboard.conftest import Site, check, visit
from tests.service.samples import GRAPH


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
    expect(page).to_have_url(f"{site.url}/new?graph={graph}")
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


def test_a_graph_file_is_uploaded_and_planned(page: Page, site: Site, tmp_path: Path) -> None:
    visit(page, f"{site.url}/graphs")
    field = page.get_by_label("Upload a graph")
    wrong = tmp_path / "wrong.json"
    wrong.write_text("not a graph")
    field.set_input_files(wrong)
    expect(page.get_by_role("alert")).to_contain_text("this is not JSON")
    wrong.write_text(json.dumps({**GRAPH, "outputs": ["nowhere"]}))
    field.set_input_files(wrong)
    expect(page.get_by_role("alert")).to_contain_text("nowhere")
    packed = tmp_path / "mine.json.gz"
    packed.write_bytes(gzip.compress(json.dumps({**GRAPH, "name": "uploaded"}).encode()))
    field.set_input_files(packed)
    page.wait_for_url("**/new?graph=graph_*")
    expect(page.get_by_role("heading", level=1)).to_contain_text("uploaded")
