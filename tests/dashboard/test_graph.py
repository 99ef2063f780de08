"""The graph of a plan: modules that open, edges that say what moves, search, links that last."""

from __future__ import annotations

from urllib.parse import urlencode

import httpx
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import Site, check, visit


def boxes(page: Page) -> set[str]:
    found = page.locator(".graph [data-box]").evaluate_all("all => all.map(b => b.dataset.box)")
    return set(found)


def test_a_module_opens_with_a_click_and_folds_again(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['llama']}/graph")
    assert {"model", "model.layers", "model.norm"} <= boxes(page)
    page.locator('[data-box="model.layers"]').click()
    page.wait_for_selector('[data-box^="model.layers.0"]')
    expect(page.locator('[data-box="model.layers.0"]')).to_contain_text("×3")
    expect(page.get_by_label("Selected")).to_contain_text("model.layers")
    assert "model.layers" in page.url
    check(page, "graph")
    page.locator('[data-head="model.layers"]').click()
    expect(page.locator('[data-box^="model.layers.0"]')).to_have_count(0)


def test_what_is_drawn_is_what_the_service_lays_out(page: Page, site: Site) -> None:
    plan = site.plans["mixtral"]
    opened = ["model", "model.layers", "model.layers.0"]
    visit(page, f"{site.url}/plans/{plan}/graph?{urlencode({'open': opened}, doseq=True)}")
    laid = httpx.get(f"{site.url}/v1/plans/{plan}/layout", params={"open": opened}).json()
    page.get_by_role("button", name="All in sight").click()
    assert boxes(page) <= {own["id"] for own in laid["boxes"]}
    assert page.locator(".graph [data-box]").count() == len(laid["boxes"])


def test_all_of_a_long_drawing_comes_in_sight(page: Page, site: Site) -> None:
    """In a window this low it begins at its top, where letters can be read."""
    page.set_viewport_size({"width": 1280, "height": 320})
    opened = ["model", "model.layers", "model.layers.0"]
    address = urlencode({"open": opened}, doseq=True)
    visit(page, f"{site.url}/plans/{site.plans['mixtral']}/graph?{address}")
    below = """() => {
        const room = document.querySelector("svg.graph").getBoundingClientRect();
        const boxes = [...document.querySelectorAll(".graph [data-box]")];
        return boxes.filter((box) => box.getBoundingClientRect().bottom > room.bottom + 1).length;
    }"""
    assert page.evaluate(below) > 0
    page.get_by_role("button", name="All in sight").click()
    page.wait_for_function(f"() => ({below})() === 0")
    laid = httpx.get(f"{site.url}/v1/plans/{site.plans['mixtral']}/layout", params={"open": opened})
    assert page.locator(".graph [data-box]").count() == len(laid.json()["boxes"])


def test_an_edge_says_what_moves(page: Page, site: Site) -> None:
    plan = site.plans["face"]
    found = httpx.get(f"{site.url}/v1/plans/{plan}/layout", params={"open": "head"}).json()
    moved = [own for own in found["edges"] if own.get("moved")]
    assert moved
    visit(page, f"{site.url}/plans/{plan}/graph?open=head")
    page.locator(".graph .move").first.click()
    legend = page.get_by_role("group", name="Colours of edges")
    for own in {one["collective"] for edge in moved for one in edge["moved"]}:
        expect(legend).to_contain_text(own.replace("_", "-"))
    panel = page.get_by_label("Selected")
    expect(panel).to_contain_text("Redistributed on the way")
    expect(panel).to_contain_text(moved[0]["moved"][0]["collective"])
    check(page, "graph-edge")


def test_what_moves_to_an_op_is_said_by_collective_and_pass(page: Page, site: Site) -> None:
    plan = site.plans["face"]
    found = httpx.get(f"{site.url}/v1/plans/{plan}/layout", params={"open": "head"}).json()
    edges = [own for own in found["edges"] if own.get("moved")]
    target = edges[0]["target"]
    into = [own for own in edges if own["target"] == target]
    kinds = {(one["collective"], one["direction"]) for own in into for one in own["moved"]}
    address = urlencode({"open": "head", "op": target})
    visit(page, f"{site.url}/plans/{plan}/graph?{address}")
    table = page.get_by_role("table", name="Moves to it")
    expect(table.locator("tbody tr")).to_have_count(len(kinds))
    together_us = sum(own["ns"] for own in into) / 1e3
    expect(page.get_by_label("Selected")).to_contain_text(f"Together {together_us:.0f}\u00a0µs")
    check(page, "graph-moves")


def test_more_axes_than_hues_are_said_to_share_them(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['face']}/graph")
    said = page.evaluate("""async () => {
        const { coloursOf, graphLegend } = await import('/dashboard/graph/legend.js');
        const axes = Object.fromEntries(Array.from({length: 10}, (_, at) => [`a${at}`, 2]));
        return graphLegend(coloursOf([axes]), []).map((own) => own?.textContent ?? '').join(' ');
    }""")
    assert "cut over a0 or a8" in said
    assert "cut over a1 or a9" in said
    assert "Of 10 axes 2 share a colour" in said


def test_an_op_is_found_opened_and_kept_in_the_address(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['llama']}/graph")
    page.keyboard.press("/")
    page.keyboard.type("layers.7.mlp.down_proj")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    panel = page.get_by_label("Selected")
    expect(panel).to_contain_text("mlp.down_proj")
    expect(panel).to_contain_text("Parameters at rest")
    expect(page.locator(".graph .chosen")).to_be_in_viewport()
    kept = page.url
    check(page, "graph-op")
    visit(page, kept)
    expect(panel).to_contain_text("mlp.down_proj")
    expect(page.locator(".graph .chosen")).to_be_in_viewport()
    page.get_by_role("link", name="Why this strategy?").click()
    page.wait_for_url("**/why?op=*down_proj*")


def test_boxes_are_walked_and_opened_by_keyboard(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['llama']}/graph?open=model&op=model.norm")
    page.get_by_role("application").focus()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_label("Selected")).to_contain_text("model.layers")
    page.keyboard.press("Enter")
    page.wait_for_selector('[data-box^="model.layers.0"]')
    page.keyboard.press("Enter")
    expect(page.locator('[data-box^="model.layers.0"]')).to_have_count(0)


def test_it_is_dragged_and_zoomed(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['llama']}/graph")
    layer = page.locator("svg.graph > g")
    before = layer.get_attribute("transform")
    box = page.locator("svg.graph").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 60, steps=3)
    page.mouse.up()
    expect(layer).not_to_have_attribute("transform", before or "")
    page.get_by_role("application").focus()
    page.keyboard.press("+")
    page.keyboard.press("0")
    expect(layer).to_have_attribute("transform", before or "")
