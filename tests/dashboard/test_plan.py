"""A plan's page: its answers in order, in words and numbers that the API says."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect

from meshwright.client import Client
from meshwright.schema import Pipeline, Setup
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
    picture = page.get_by_role("img", name="Topology with the axes of the mesh")
    expect(picture.locator(".device:not(.unused)")).to_have_count(8)  # of the open node
    for axis in found["overview"]["stages"][0]["mesh"]["axes"]:
        expect(picture.get_by_text(f"{axis['name']} = {axis['size']}")).to_have_count(1)
    expect(page.locator("svg.map")).to_have_count(0)  # one pipeline rank: all devices are alike
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


def test_memory_over_time_is_open_once_it_is_simulated(page: Page, site: Site) -> None:
    with Client(site.url) as client:
        plan = client.plan(layered(2, batch=8), "h100-1x4").plan
        assert plan is not None
        assert not client.memory(plan.id)["is_simulated"]
    visit(page, f"{site.url}/plans/{plan.id}")
    areas = page.get_by_role("img", name="Memory over one simulated step")
    expect(areas).to_have_count(0)
    page.get_by_text("Over one step, simulated").click()
    expect(areas).to_be_visible()
    visit(page, f"{site.url}/plans/{plan.id}")
    expect(areas).to_be_visible()
    expect(areas.locator("path.area")).not_to_have_count(0)
    check(page, "plan-memory")
    page.get_by_text("Over one step, simulated").click()
    expect(areas).to_be_hidden()


@pytest.mark.parametrize("name", ["face", "llama"])
def test_the_bar_and_the_areas_of_memory_have_one_scale(page: Page, site: Site, name: str) -> None:
    plan = f"{site.url}/v1/plans/{site.plans[name]}"
    found = httpx.get(f"{plan}/memory?points=400", timeout=120).json()
    (rank,), (curve,) = found["ranks"], found["over_time"]
    assert curve["peak"]["bytes"] == rank["total_bytes"] == sum(rank["parts"].values())
    visit(page, f"{site.url}/plans/{site.plans[name]}?memory=0")
    areas = page.get_by_role("img", name="Memory over one simulated step")
    bar = page.get_by_role("img", name="Memory of a device by pipeline rank, in parts")
    capacity = f"a device has {rank['capacity_bytes'] / 2**30:.1f}\u00a0GiB"
    for drawing in (areas, bar):
        expect(drawing.get_by_text(capacity)).to_be_visible()
    limit, peak, begin, zero, reserve = areas.evaluate("""own => {
        const height = (shape) => shape.getBBox();
        const paths = [...own.querySelectorAll("path.area")].map(height);
        const grid = [...own.querySelectorAll("line.grid")].map((tick) => tick.y1.baseVal.value);
        return [
            own.querySelector("line[stroke-dasharray]").y1.baseVal.value,
            Math.min(...paths.map((box) => box.y)), Math.min(...paths.map((box) => box.x)),
            Math.max(...grid), height(own.querySelector("rect.reserve")).height,
        ];
    }""")
    whole = zero - limit
    used = rank["total_bytes"] - rank["parts"]["reserved"]
    assert (zero - peak) / whole == pytest.approx(used / rank["capacity_bytes"], abs=0.005)
    share = rank["parts"]["reserved"] / rank["capacity_bytes"]
    assert reserve / whole == pytest.approx(share, abs=0.005)
    assert begin == pytest.approx(76, abs=0.5)  # the begin of the step
    told = page.get_by_text("Peak: ").filter(has=page.get_by_role("link"))
    expect(told).to_contain_text(curve["peak"]["at"])
    expect(told).to_contain_text(f"{rank['total_bytes'] / 2**30:.1f}\u00a0GiB")


def test_the_rank_of_the_memory_is_in_the_address(page: Page, site: Site) -> None:
    asked = Pipeline(ranks=2, schedule="interleaved_1f1b", stages_per_rank=2)
    with Client(site.url) as client:
        setup = Setup(microbatches=4)
        plan = client.plan(layered(6, batch=16), "h100-2x4", pipeline=asked, setup=setup).plan
        assert plan is not None
        curves = client.memory(plan.id, points=100)["over_time"]
    visit(page, f"{site.url}/plans/{plan.id}?memory=1")
    picked = page.get_by_role("combobox", name="Pipeline rank")
    expect(picked).to_have_value("1")
    for rank in (0, 1):
        picked.select_option(str(rank))
        page.wait_for_url(f"**?memory={rank}")
        peak = curves[rank]["peak"]
        told = page.get_by_text("Peak: ").filter(has=page.get_by_role("link"))
        expect(told).to_contain_text(f"in microbatch {peak['microbatch']}: {peak['at']}")
    picture = page.get_by_role("img", name="Topology with the axes of the mesh")
    expect(picture.get_by_text("2 pipeline ranks")).to_have_count(1)
    expect(page.locator("svg.map .device")).to_have_count(8)  # colored by pipeline rank
    check(page, "plan-pipeline")


TOPOLOGIES = {
    "tpu-v5p-4x4x4": ["4 × x: torus, 200\u00a0GB/s a device", "4 × z: torus"],
    "910a-2x8": ["2 × node: roce", "2 × board: pcie", "4 × npu: hccs"],
    "a100-80g-2x8+h100-2x8": ["NVIDIA A100 SXM4 80GB × 16", "between groups: infiniband"],
    "910c-1x64": ["64 × npu: unified bus", "… × 64"],
}


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_the_topology_is_drawn_with_its_links(page: Page, site: Site, name: str) -> None:
    with Client(site.url) as client:
        plan = client.plan(layered(3, batch=64), name).plan
        assert plan is not None
    visit(page, f"{site.url}/plans/{plan.id}")
    picture = page.get_by_role("img", name="Topology with the axes of the mesh")
    for text in TOPOLOGIES[name]:
        expect(picture.get_by_text(text).first).to_be_visible()
    axes = {axis.name: axis.size for stage in plan.stages for axis in stage.mesh.axes}
    for axis, size in axes.items():
        expect(picture.get_by_text(f"{axis} = {size}").first).to_be_visible()
    outside = picture.evaluate("""own => {
        const edge = own.viewBox.baseVal.width;
        return [...own.querySelectorAll("text, rect")].map((one) => one.getBBox())
            .filter((box) => box.x < -1 || box.x + box.width > edge + 1).length;
    }""")
    assert outside == 0
    check(page, f"plan-topology-{name}")


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


def test_a_plan_leads_to_its_search_and_back(page: Page, site: Site) -> None:
    plan = site.plans["face"]
    visit(page, f"{site.url}/plans/{plan}")
    page.get_by_role("link", name="the course of the search").click()
    page.wait_for_url("**/jobs/job_*")
    page.get_by_role("link", name="Open the plan").click()
    page.wait_for_url(f"**/plans/{plan}")
