"""A plan's page: its answers in order, in words and numbers that the API says."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect

from meshwright.client import Client
from tests.dashboard.conftest import GRAPHS, Site, check, shot, visit
from tests.solver.layered import layered

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
    if not found["observations"]:
        expect(page.locator(".answers")).to_contain_text("80 % within")
    expect(page.locator(".answers")).to_contain_text("fits with probability")
    degrees = found["overview"]["uniform"]["degrees"]
    expect(page.get_by_label("Degrees")).to_contain_text(f"DP {degrees['dp']}")
    expect(page.get_by_label("Degrees")).to_contain_text(f"TP {degrees['tp']}")
    expect(page.locator("svg.map .device")).to_have_count(64)
    check(page, f"plan-{name}")


def test_a_plan_that_wastes_its_devices_says_so_first(page: Page, site: Site) -> None:
    with Client(site.url) as client:
        plan = client.plan(layered(4, batch=8), "h100-100x8").plan
    assert plan is not None
    visit(page, f"{site.url}/plans/{plan.id}")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("792 of 800 devices repeat the work of others")
    box, answers = alert.bounding_box(), page.locator(".answers").bounding_box()
    assert box is not None
    assert answers is not None
    assert box["y"] < answers["y"]
    expect(page.locator(".plan-head").get_by_text("idle devices")).to_be_visible()
    check(page, "plan-waste")


def test_utilization_and_warnings_stand_on_the_page(page: Page, site: Site) -> None:
    for name in ("llama", "face"):
        id_ = site.plans[name]
        overview = httpx.get(f"{site.url}/v1/plans/{id_}/overview").json()["overview"]
        visit(page, f"{site.url}/plans/{id_}")
        card = page.locator(".answers .card", has_text="Utilization")
        expect(card).to_contain_text(f"{overview['utilization'] * 100:.1f}")
        items = page.get_by_label("Warnings", exact=True).get_by_role("listitem")
        expect(items).to_have_count(len(overview["warnings"]))
        head = page.locator(".plan-head")
        for warning in overview["warnings"]:
            expect(head.get_by_text(warning["code"].replace("-", " "))).to_be_visible()
            expect(items.filter(has_text=warning["text"])).to_have_count(1)
        expect(page.get_by_text("Ops that take most time:")).to_contain_text(
            overview["kinds"][0]["kind"]
        )


def test_memory_over_time_is_simulated_when_asked_for(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['face']}")
    page.get_by_text("Over one step, simulated").click()
    expect(page.get_by_label("Memory over one simulated step")).to_be_visible()
    check(page, "plan-memory")


@pytest.mark.parametrize("name", ["face", "llama"])
def test_the_bar_and_the_curve_of_memory_have_one_scale(page: Page, site: Site, name: str) -> None:
    plan = f"{site.url}/v1/plans/{site.plans[name]}"
    (rank,) = httpx.get(f"{plan}/memory").json()["ranks"]
    visit(page, f"{site.url}/plans/{site.plans[name]}")
    page.get_by_text("Over one step, simulated").click()
    curve = page.get_by_label("Memory over one simulated step")
    bar = page.get_by_label("Memory of a device by pipeline rank, in parts")
    capacity = f"a device has {rank['capacity_bytes'] / 2**30:.1f}\u00a0GiB"
    for drawing in (curve, bar):
        expect(drawing.get_by_text(capacity)).to_be_visible()
    line, path = curve.locator("line[stroke-dasharray]"), curve.locator("path.curve")
    whole = float(line.get_attribute("y1") or 0)
    zero, peak = path.evaluate("""own => {
        const {y, height} = own.getBBox();
        const grid = [...own.ownerSVGElement.querySelectorAll("line.grid")];
        return [Math.max(...grid.map((tick) => tick.y1.baseVal.value)), y];
    }""")
    share = (zero - peak) / (zero - whole)  # of what a device has
    assert share == pytest.approx(rank["total_bytes"] / rank["capacity_bytes"], abs=0.03)


def test_peak_memory_of_a_simulated_step_counts_the_reserve(page: Page, site: Site) -> None:
    plan = f"{site.url}/v1/plans/{site.plans['llama']}"
    (rank,) = httpx.get(f"{plan}/simulation").json()["ranks"]
    reserved = httpx.get(f"{plan}/memory").json()["stages"][0]["parts"]["reserved"]
    visit(page, f"{site.url}/plans/{site.plans['llama']}/timeline")
    page.get_by_text("What is waited for", exact=True).click()
    table = page.get_by_role("table", name="Ranks")
    peak = (rank["peak_bytes"] + reserved) / 2**30
    expect(table).to_contain_text(f"{peak:.1f}\u00a0GiB")


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
