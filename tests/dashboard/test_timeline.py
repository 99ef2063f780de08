"""The simulated step: lanes, zoom, walking by keyboard, the trace as a file."""

from __future__ import annotations

import json
import random

import pytest
from playwright.sync_api import Page, expect

from meshwright_solver.simulation.step import step_of
from meshwright_solver.simulation.summary import rank_step
from meshwright_solver.simulation.trace import trace_of
from tests.dashboard.conftest import Site, check, visit
from tests.solver.layered import layered
from tests.solver.pipeline.test_pipeline_planner import asked
from tests.solver.requests import planned


def test_the_step_is_walked_and_zoomed(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['mixtral']}/timeline")
    said = page.get_by_role("status")
    expect(said).to_have_text("Nothing is selected.")
    lanes = page.get_by_role("application")
    lanes.focus()
    page.keyboard.press("ArrowRight")
    expect(said).to_contain_text("from")
    first = said.inner_text()
    page.keyboard.press("ArrowDown")
    expect(said).to_contain_text("compute")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(said).not_to_have_text(first)
    page.keyboard.press("f")
    page.wait_for_url("**/timeline?at=*")
    kept, chosen = page.url, lanes.screenshot()
    page.keyboard.press("0")
    page.wait_for_url("**/timeline")
    assert lanes.screenshot() != chosen
    visit(page, kept)
    assert page.url == kept
    check(page, "timeline")


def test_a_click_selects_and_a_drag_moves(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['llama']}/timeline")
    box = page.get_by_role("application").bounding_box()
    assert box is not None
    middle, lane = box["x"] + box["width"] / 2, box["y"] + 26 + 22 + 20 + 10
    page.mouse.click(middle, lane)
    expect(page.get_by_role("status")).to_contain_text("compute")
    page.mouse.wheel(0, -400)
    page.mouse.wheel(0, -400)
    page.wait_for_url("**?at=*")
    before = page.url
    page.mouse.move(middle, lane)
    page.mouse.down()
    page.mouse.move(middle - 200, lane, steps=4)
    page.mouse.up()
    page.wait_for_url(lambda url: url != before)


def test_the_trace_is_a_file(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['face']}/timeline")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    trace = json.loads(download.value.path().read_text())
    assert trace["otherData"]["plan"] == site.plans["face"]


def test_what_is_waited_for_is_simulated_when_asked(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['face']}/timeline")
    page.get_by_text("What is waited for", exact=True).click()
    expect(page.get_by_role("table", name="Ranks")).to_be_visible()
    expect(page.get_by_role("table", name="Waits").get_by_role("row").nth(1)).to_be_visible()


def test_merged_microbatches_fill_their_lanes(page: Page, site: Site) -> None:
    """No white where a stream works: of 4 microbatches the first alone has its tasks."""
    request = asked(layered(), schedule="1f1b")
    step = step_of(planned(request), request.graph, request.topology, request.setup)
    body = json.dumps(trace_of(step, max_events=1))
    page.route(
        "**/v1/plans/*/timeline",
        lambda route: route.fulfill(body=body, content_type="application/json"),
    )
    visit(page, f"{site.url}/plans/{site.plans['face']}/timeline")
    expect(page.get_by_text("Microbatches 1 to 3 are fainter")).to_be_visible()
    expect(page.get_by_text("microbatches that are not shown task by task")).to_be_visible()
    lanes = page.get_by_role("application")
    empty = lanes.evaluate("""own => {
        const scale = own.width / own.clientWidth, wide = own.width - 190 * scale;
        const row = (y) => own.getContext("2d").getImageData(190 * scale, y * scale, wide, 1).data;
        const free = (data) => {
            let count = 0;
            for (let at = 0; at < data.length; at += 4)
                count += data[at] + data[at + 1] + data[at + 2] === 3 * 255;
            return count / (data.length / 4);
        };
        // compute lane of rank 0: the hatch of waits has gaps between its lines, works have none
        return Math.min(...[4, 6, 8, 10, 12].map((y) => free(row(26 + 22 + 20 + y))));
    }""")
    idle = 1 - rank_step(step, 0).compute_ns / step.ns
    assert empty <= idle + 0.02
    check(page, "timeline-merged")


LABELS = (
    """places => import("/dashboard/chart/tick_labels.js").then((own) => own.timeLabels(places))"""
)


@pytest.mark.parametrize(
    ("places", "labels"),
    [
        ((0, 1e6, 2e6), ["0 s", "1.00 ms", "2.00 ms"]),
        ((2.8e9, 2.9e9, 3.0e9), ["2.80 s", "2.90 s", "3.00 s"]),
        ((2.897e9, 2.8975e9, 2.898e9), ["2.897 s", "2.897 s + 500 µs", "2.897 s + 1 ms"]),
        ((2897000400, 2897000600), ["2.897 s + 400 ns", "2.897 s + 600 ns"]),
    ],
)
def test_ticks_that_would_read_the_same_are_offsets(
    page: Page, site: Site, places: tuple[float, ...], labels: list[str]
) -> None:
    visit(page, site.url)
    assert page.evaluate(LABELS, places) == [label.replace(" ", "\u00a0") for label in labels]


def test_ticks_at_every_zoom_differ_and_add_up(page: Page, site: Site) -> None:
    visit(page, site.url)
    at = random.Random(12)
    for _ in range(200):
        step = 10 ** at.randint(0, 8) * at.choice((1, 2, 5))
        first = at.randrange(1, 10**10 // step + 2) * step
        places = [first + step * place for place in range(at.randint(2, 9))]
        labels = page.evaluate(LABELS, places)
        assert len(set(labels)) == len(labels), (places, labels)
        if "+" in labels[-1]:
            for place, label in zip(places, labels, strict=True):
                assert sum(map(nanoseconds, label.split("+"))) == pytest.approx(place, abs=step / 2)


def nanoseconds(text: str) -> float:
    number, unit = text.strip("\u00a0").split("\u00a0")
    return (
        float(number.replace(",", ""))
        * {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10}[unit]
    )
