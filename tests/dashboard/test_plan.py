"""A plan's page: its answers in order, in words and numbers that the API says."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import GRAPHS, Site, check, shot, visit

SECTIONS = ["Does it fit?", "How fast is it?", "What does it do?", "How sure is that?"]


@pytest.mark.parametrize("name", GRAPHS)
def test_it_answers_in_the_order_of_the_questions(page: Page, site: Site, name: str) -> None:
    visit(page, f"{site.url}/plans/{site.plans[name]}")
    headings = page.get_by_role("heading", level=2).all_inner_texts()
    assert [own for own in headings if own.endswith("?")] == SECTIONS
    expect(page.get_by_role("heading", level=1)).to_contain_text(GRAPHS[name])
    found = httpx.get(f"{site.url}/v1/plans/{site.plans[name]}/overview").json()
    step_ms = found["entry"]["step_ns"] / 1e6
    expect(page.locator(".answers")).to_contain_text(f"{step_ms:.0f}\u00a0ms")
    degrees = found["overview"]["uniform"]["degrees"]
    expect(page.get_by_label("Degrees")).to_contain_text(f"DP {degrees['dp']}")
    expect(page.get_by_label("Degrees")).to_contain_text(f"TP {degrees['tp']}")
    expect(page.locator("svg.map .device")).to_have_count(64)
    check(page, f"plan-{name}")


def test_memory_over_time_is_simulated_when_asked_for(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['face']}")
    page.get_by_text("Over one step, simulated").click()
    expect(page.get_by_label("Memory over one simulated step")).to_be_visible()
    check(page, "plan-memory")


def test_observations_stand_beside_the_prediction(page: Page, site: Site) -> None:
    plan = f"{site.url}/v1/plans/{site.plans['face']}"
    step_ns = httpx.get(f"{plan}/overview").json()["entry"]["step_ns"]
    observed = {"step_ns": 1.25 * step_ns, "stack": "<b>torchtitan</b>", "memory_bytes": 1 << 34}
    assert httpx.post(f"{plan}/observations", json=observed).status_code == 201
    visit(page, f"{site.url}/plans/{site.plans['face']}")
    row = page.get_by_role("table", name="Observations").get_by_role("row").nth(1)
    expect(row).to_contain_text("+25.0\u00a0%")
    expect(row).to_contain_text("16.0\u00a0GiB")
    expect(row).to_contain_text("<b>torchtitan</b>")


def test_the_plan_is_downloaded_as_it_is_stored(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['face']}")
    with page.expect_download() as download:
        page.get_by_role("button", name="Plan (JSON)").click()
    assert download.value.suggested_filename == "face-head.json"
    stored = httpx.get(f"{site.url}/v1/plans/{site.plans['face']}").content
    assert download.value.path().read_bytes() == stored


@pytest.mark.parametrize(("label", "target"), [("PyTorch (DTensor)", "dtensor"), ("JAX", "jax"),
                                              ("MindSpore", "mindspore"),
                                              ("Megatron-LM", "megatron"),
                                              ("torchtitan", "torchtitan")])  # fmt: skip
def test_exports_are_downloaded_or_say_what_cannot_be_said(
    page: Page, site: Site, label: str, target: str
) -> None:
    address = f"{site.url}/v1/plans/{site.plans['face']}/exports/{target}"
    given = httpx.get(address)
    visit(page, f"{site.url}/plans/{site.plans['face']}")
    button = page.get_by_role("button", name=label, exact=True)
    if given.status_code == 200:
        with page.expect_download() as download:
            button.click()
        assert download.value.path().read_bytes() == given.content
    else:
        assert given.status_code == 409
        button.click()
        expect(page.get_by_role("alert")).to_contain_text(given.json()["detail"])


def test_it_prints_without_what_is_for_the_screen(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['llama']}")
    page.emulate_media(media="print")
    expect(page.get_by_role("button", name="Print")).to_be_hidden()
    expect(page.get_by_label("Pages of this plan")).to_be_hidden()
    expect(page.get_by_role("heading", name="Does it fit?")).to_be_visible()


def test_a_plan_that_is_not_there_is_named(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/plan_0")
    expect(page.get_by_role("alert")).to_contain_text("plan_0")


def test_a_plan_is_printed_whole_and_light(page: Page, site: Site) -> None:
    page.emulate_media(color_scheme="dark")
    visit(page, f"{site.url}/plans/{site.plans['face']}")
    entry = httpx.get(f"{site.url}/v1/plans/{site.plans['face']}/overview").json()["entry"]
    page.emulate_media(color_scheme="dark", media="print")
    page.set_viewport_size({"width": 720, "height": 1020})  # A4 within its margins
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    cut = page.evaluate("""() => [...document.querySelectorAll('#view table, #view svg, #view p')]
        .filter((own) => own.getBoundingClientRect().right > innerWidth + 1)
        .map((own) => own.outerHTML.slice(0, 80))""")
    assert cut == []
    for head in page.locator("th").all():
        expect(head).to_be_visible()
        if head.locator("button").count():
            expect(head.locator("button")).to_be_visible()
    expect(page.get_by_role("button", name="Print")).to_be_hidden()
    said = [
        page.locator(path).first.evaluate("own => getComputedStyle(own, '::after').content")
        for path in (".plan-head .mono", ".plan-head time")
    ]
    assert entry["id"] in said[0]
    assert "202" in said[1]  # a year
    shot(page, "plan-printed")
    pages = page.pdf(format="A4").count(b"/Type /Page\n")
    assert 1 <= pages <= 4
