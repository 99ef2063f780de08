"""The schedule of a pipeline: its numbers, the walk by keys, the way into the timeline."""

from __future__ import annotations

import json
import re

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from meshwright.client import Client
from meshwright.schema import Pipeline, Plan, Schedule, ScheduleKind, Setup
from meshwright_service.plan_views.schedule_view import PlanPasses, passes_of
from tests.dashboard.conftest import Site, check, overflow, shot, visit
from tests.solver.layered import layered

KINDS: dict[ScheduleKind, int] = {
    "gpipe": 1,
    "1f1b": 1,
    "zb_h1": 1,
    "interleaved_1f1b": 2,
    "zb_v": 2,
}


@pytest.fixture(scope="module")
def pipelines(site: Site) -> dict[str, Plan]:
    found = {}
    with Client(site.url) as client:
        for kind, count in KINDS.items():
            asked = Pipeline(ranks=2, schedule=kind, stages_per_rank=count)
            setup = Setup(microbatches=4)
            plan = client.plan(layered(5, batch=16), "h100-2x2", pipeline=asked, setup=setup).plan
            assert plan is not None
            found[kind] = plan
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_bubble_is_that_of_the_plan(
    page: Page, site: Site, pipelines: dict[str, Plan], kind: str
) -> None:
    plan = pipelines[kind]
    made = PlanPasses.model_validate(httpx.get(f"{site.url}/v1/plans/{plan.id}/schedule").json())
    assert made == passes_of(plan)
    assert made.step_ns == pytest.approx(plan.cost.step_ns)
    assert min(abs(own.bubble_ns - plan.cost.bubble_ns) for own in made.ranks) < 1
    for own in made.ranks:
        parts = own.begin_ns + own.passes_ns + own.end_ns + own.bubble_ns
        assert parts == pytest.approx(made.step_ns)
        waits = [end - start for start, end in own.bubbles_ns]
        assert sum(waits) == pytest.approx(own.bubble_ns, abs=0.1)
    visit(page, f"{site.url}/plans/{plan.id}/schedule")
    share = sum(own.bubble_ns for own in made.ranks) / made.step_ns / len(made.ranks)
    told = page.get_by_text(re.compile(f"^{kind}, 2 pipeline ranks"))
    digits = re.search(r"bubble is ([\d.]+)\s%", told.inner_text())
    assert digits is not None
    assert float(digits[1]) == pytest.approx(100 * share, rel=0.01)
    rows = page.get_by_role("table", name="Ranks").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(page.get_by_text("bubble", exact=True).first).to_be_visible()
    assert overflow(page) == []


def test_a_pass_leads_to_the_timeline(page: Page, site: Site, pipelines: dict[str, Plan]) -> None:
    plan = pipelines["interleaved_1f1b"]
    visit(page, f"{site.url}/plans/{plan.id}/schedule")
    lanes = page.get_by_role("application")
    lanes.focus()
    page.keyboard.press("ArrowDown")  # rank 1, which waits for its first pass
    page.keyboard.press("ArrowRight")
    selected = page.get_by_role("status")
    expect(selected).to_contain_text("1F0: forward of microbatch 0 on stage 1")
    page.keyboard.press("f")
    page.wait_for_url("**/schedule?at=*")
    check(page, "schedule")
    page.get_by_role("link", name="open in the timeline").click()
    page.wait_for_url("**/timeline?pass=1F0*")
    expect(page.get_by_role("status")).to_contain_text("F0")
    expect(page.get_by_role("status")).to_contain_text("stage 1")
    expect(page.get_by_role("table", name="Overlap")).to_be_visible()
    check(page, "timeline-pipeline")


def test_a_plan_of_one_rank_has_no_schedule(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['face']}/schedule")
    expect(page.get_by_role("heading", name="One pipeline rank")).to_be_visible()
    page.get_by_role("link", name="The timeline of a step").click()
    page.wait_for_url("**/timeline")


def test_many_ranks_and_microbatches_are_drawn_at_once(
    page: Page, site: Site, pipelines: dict[str, Plan]
) -> None:
    """64 ranks of 128 microbatches: 16,384 passes."""
    plan = pipelines["1f1b"]
    changes = {
        "schedule": Schedule(kind="1f1b", ranks=64),
        "stages": (plan.stages[0], *[plan.stages[1]] * 63),
        "microbatches": 128,
    }
    made = passes_of(plan.model_copy(update=changes))
    body = json.dumps(made.model_dump(mode="json"))

    def answer(route: Route) -> None:
        route.fulfill(body=body, content_type="application/json")

    page.route("**/v1/plans/*/schedule", answer)
    visit(page, f"{site.url}/plans/{plan.id}/schedule")
    page.get_by_text("The 64 ranks").click()
    expect(page.get_by_role("table", name="Ranks").locator("tbody tr")).to_have_count(64)
    lanes = page.get_by_role("application")
    lanes.focus()
    ms = page.evaluate("""async () => {
        const frame = () => new Promise((done) => requestAnimationFrame(done));
        const press = (key) => document.body.dispatchEvent(
            new KeyboardEvent("keydown", {key, bubbles: true}));
        const began = performance.now();
        for (let at = 0; at < 30; at += 1) {
            press(at % 3 ? "w" : "s");
            await frame();
            await frame();
        }
        return (performance.now() - began) / 30;
    }""")
    assert ms < 500  # two frames; on a machine of its own 34
    box = lanes.bounding_box()
    assert box is not None
    assert box["height"] < 900  # its lanes scroll
    for _ in range(40):
        page.keyboard.press("ArrowDown")
    expect(page.get_by_role("status")).to_contain_text("rank 40")
    assert page.locator(".lanes").evaluate("own => own.scrollTop") > 0
    shot(page, "schedule-64")
