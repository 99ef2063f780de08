"""The launch page: what a file does not say of the plan stands before it, in red."""

from __future__ import annotations

import json
import re

import httpx
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.schema import Budget, Graph
from meshwright.schema.degrees import Degrees
from tests.dashboard.conftest import ROOT, Site, check, visit
from tests.solver.layered import layered


@pytest.fixture(scope="module")
def for_megatron(site: Site) -> str:
    """A plan that was searched for Megatron-LM, which its arguments state whole."""
    budget = Budget(seconds=20, unrestricted=False)
    with Client(site.url) as client:
        plan = client.plan(
            layered(6, batch=96), "h100-1x4", target="megatron-core", budget=budget
        ).plan
    assert plan is not None
    return plan.id


@pytest.fixture(scope="module")
def overfull(site: Site) -> str:
    """A stated strategy that needs more memory than its devices have."""
    graph = read_document(ROOT / "examples" / "graphs" / "llama3-8b.json.gz", Graph)
    with Client(site.url) as client:
        plan = client.plan(graph, "h100-1x2", degrees=Degrees(dp=2)).plan
    assert plan is not None
    return plan.id


def tab(page: Page, name: str) -> Locator:
    return page.get_by_role("tab", name=name, exact=True)


def ways(site: Site, plan: str) -> list[dict[str, str]]:
    """The service's own list."""
    found: list[dict[str, str]] = httpx.get(f"{site.url}/v1/plans/{plan}/launch").json()["ways"]
    return found


def test_the_file_of_the_target_is_shown_at_once(
    page: Page, site: Site, for_megatron: str, context: BrowserContext
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit(page, f"{site.url}/plans/{for_megatron}")
    page.get_by_label("Pages of this plan").get_by_role("link", name="Launch").click()
    expect(page).to_have_url(re.compile("/launch$"))
    selected = page.get_by_role("tab", selected=True)
    expect(selected).to_contain_text("Megatron-LM")
    expect(selected).to_contain_text("target")
    found = httpx.get(f"{site.url}/v1/plans/{for_megatron}/launch/megatron-core").json()
    assert found["losses"] == []
    file = page.get_by_role("region", name=found["file"], exact=True)
    expect(file).to_have_text(found["text"].strip())
    expect(page.get_by_role("alert")).to_have_count(0)
    assert found["file"].endswith(".sh")
    page.get_by_role("button", name=f"Copy {found['file']}").click()
    expect(page.get_by_text("copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == found["text"]
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == found["file"]
    assert download.value.path().read_text() == found["text"]
    steps = page.get_by_role("list", name="Steps")
    export = f"meshwright export {for_megatron} --to megatron-core --server {site.url} -o"
    expect(steps).to_contain_text(f"{export} {found['file']}")
    expect(steps).to_contain_text(f'"{site.url}/v1/plans/{for_megatron}/launch/megatron-core"')
    expect(steps).to_contain_text("torchrun --nproc-per-node 4 pretrain_gpt.py")
    check(page, "launch-lossless")


def test_what_a_file_loses_stands_in_red_and_the_file_after_a_click(page: Page, site: Site) -> None:
    plan = site.plans["mixtral"]
    asked: list[str] = []
    page.on("request", lambda own: asked.append(own.url) if "/launch/" in own.url else None)
    visit(page, f"{site.url}/plans/{plan}/launch?target=torchtitan")
    found = httpx.get(f"{site.url}/v1/plans/{plan}/launch/torchtitan").json()
    assert found["losses"]
    assert "text" not in found
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("This file is not this plan")
    expect(alert.get_by_role("listitem")).to_have_count(len(found["losses"]))
    for loss in found["losses"]:
        expect(alert).to_contain_text(loss["what"])
        for name in loss["names"]:
            expect(alert).to_contain_text(name)
    expect(page.locator("pre")).to_have_count(0)
    assert not any("partial" in url for url in asked)
    check(page, "launch-lossy")
    page.get_by_role("button", name="Show what it can state").click()
    partly = httpx.get(f"{site.url}/v1/plans/{plan}/launch/torchtitan?partial=true").json()
    expect(page.locator("pre").first).to_have_text(partly["text"].strip())
    assert asked[-1].endswith("?partial=true")
    expect(page.get_by_role("list", name="Steps")).to_contain_text("--partial")
    check(page, "launch-partial")
    page.get_by_role("link", name="Plan for torchtitan").click()
    expect(page).to_have_url(re.compile(rf"/plans/{plan}/what-if\?target=torchtitan"))
    changes = page.get_by_role("group", name="What is changed")
    expect(changes).to_contain_text("torchtitan")


def test_a_plan_that_does_not_fit_is_stopped(page: Page, site: Site, overfull: str) -> None:
    entry = httpx.get(f"{site.url}/v1/plans/{overfull}/overview").json()["entry"]
    over = (entry["memory_bytes"] - entry["capacity_bytes"]) / 2**30
    for target in ("megatron-core", "torch", "dtensor"):
        visit(page, f"{site.url}/plans/{overfull}/launch?target={target}")
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("This plan does not fit")
        expect(alert).to_contain_text(f"{over:.0f}" if over >= 100 else f"{over:.1f}")
        expect(page.locator("pre")).to_have_count(0)
        page.get_by_role("button", name="Show it all the same").click()
        expect(page.locator("pre").first).to_be_visible()
        expect(alert.first).to_contain_text("This plan does not fit")
    check(page, "launch-overfull")


def test_arrows_go_from_tab_to_tab(page: Page, site: Site) -> None:
    plan = site.plans["face"]
    visit(page, f"{site.url}/plans/{plan}/launch")
    names = [way["title"] for way in ways(site, plan)]
    assert page.get_by_role("tab").all_inner_texts() == names
    expect(tab(page, names[0])).to_have_attribute("aria-selected", "true")
    tab(page, names[0]).focus()
    for key, name in (
        ("ArrowRight", names[1]), ("ArrowLeft", names[0]), ("ArrowLeft", names[-1]),
        ("ArrowRight", names[0]), ("End", names[-1]), ("Home", names[0]), ("ArrowDown", names[1]),
    ):  # fmt: skip
        page.keyboard.press(key)
        expect(tab(page, name)).to_be_focused()
        expect(tab(page, name)).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("tab", selected=True)).to_have_count(1)
        expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
    assert page.locator('[role="tab"][tabindex="0"]').count() == 1
    expect(page).to_have_url(re.compile("target=jax-program"))
    page.reload()
    expect(tab(page, "JAX")).to_have_attribute("aria-selected", "true")


def test_the_programs_name_the_plan_at_this_service(page: Page, site: Site) -> None:
    plan = site.plans["llama"]
    for target in ("torch", "jax-program"):
        visit(page, f"{site.url}/plans/{plan}/launch?target={target}")
        expect(page.locator("pre").first).to_contain_text(f'"{site.url}/v1/plans/{plan}"')
    visit(page, f"{site.url}/plans/{plan}/launch?target=torch")
    expect(page.locator("pre").last).to_contain_text("torchrun --nnodes 8 --nproc-per-node 8")


@pytest.mark.parametrize("name", ["dtensor", "mindspore", "dot"])
def test_layouts_and_graph_files_are_downloaded_whole(page: Page, site: Site, name: str) -> None:
    plan = site.plans["face"]
    address = f"{site.url}/v1/plans/{plan}/launch/{name}"
    found = httpx.get(address, params={"partial": True}).json()
    visit(page, f"{site.url}/plans/{plan}/launch?target={name}")
    partly = page.get_by_role("button", name="Show what it can state")
    if found["losses"]:
        expect(page.get_by_role("alert")).to_contain_text("cannot state all of this plan")
        partly.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    content = download.value.path().read_text(encoding="utf-8")
    assert content == found["text"]
    if found["file"].endswith(".json"):
        assert json.loads(content)["plan"] == plan


def test_a_file_that_is_refused_as_a_whole_says_why(page: Page, site: Site) -> None:
    plan = site.plans["llama"]
    visit(page, f"{site.url}/plans/{plan}/launch?target=mindspore-strategies")
    expect(page.get_by_role("alert")).to_contain_text("a strategy file has every operator")
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)
