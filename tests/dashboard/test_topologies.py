"""Topologies, calibrations and agents: what was promised, what was measured, and by whom."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import Site, check, shot, visit
from tests.dashboard.measured import AGENT, Measured, measure, mixed, noisy


@pytest.fixture(scope="module")
def measured(site: Site) -> Measured:
    return measure(site.url, site.plans["llama"])


def test_topologies_and_calibrations_are_listed_and_open(
    page: Page, site: Site, measured: Measured
) -> None:
    visit(page, f"{site.url}/topologies")
    check(page, "topologies")
    clusters = page.get_by_role("table", name="Topologies")
    row = clusters.get_by_role("row").filter(has_text="off by")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("2 node × 8 gpu")
    own = page.get_by_role("table", name="Calibrations")
    for word in ("measured", "anchored to 1 reported step", "published"):
        expect(own.get_by_text(word, exact=True)).not_to_have_count(0)
    row.get_by_role("link").first.click()
    page.wait_for_url(f"**/topologies/{measured.topology}")
    page.go_back()
    expect(page.get_by_role("heading", name="Calibrations")).to_be_visible()


def test_a_topology_has_what_it_keeps_beside_what_it_promises(
    page: Page, site: Site, measured: Measured
) -> None:
    visit(page, f"{site.url}/topologies/{measured.topology}")
    rates = httpx.get(f"{site.url}/v1/topologies/{measured.topology}/rates").json()
    links = page.get_by_role("table", name="Links").get_by_role("row")
    expect(links).to_have_count(3)
    for row, level in zip(links.all()[1:], rates["groups"][0]["levels"], strict=True):
        share = 100 * level["kept_bytes_per_s"] / level["promised_bytes_per_s"]
        expect(row).to_contain_text(level["level"])
        expect(row).to_contain_text(f"{share:.1f}\u00a0%")
    boxes = page.get_by_label("Levels", exact=True)
    expect(boxes).to_contain_text("8 × gpu")
    expect(boxes).to_contain_text("450\u00a0GB/s a device")
    check(page, "topology")
    page.get_by_role("link", name="what it is fitted to").click()
    page.wait_for_url(f"**/calibrations/{measured.calibration}")


def test_of_several_calibrations_one_is_chosen_and_the_address_keeps_it(
    page: Page, site: Site, measured: Measured
) -> None:
    plan = httpx.get(f"{site.url}/v1/plans/{site.plans['llama']}").json()
    own = noisy().model_copy(update={"measured_at": "2026-11-24T00:00:00+00:00"})
    httpx.post(f"{site.url}/v1/samples", json=own.to_dict())
    visit(page, f"{site.url}/topologies/{measured.topology}")
    choice = page.get_by_label("Calibration", exact=True)
    expect(choice.get_by_role("option")).to_have_count(2)
    choice.select_option(measured.calibration)
    page.wait_for_url(f"**calibration={measured.calibration}")
    page.reload()
    expect(page.get_by_label("Calibration", exact=True)).to_have_value(measured.calibration)
    visit(page, f"{site.url}/topologies/{plan['topology']}")
    anchored = page.get_by_role("option").filter(has_text=measured.anchored[:12])
    expect(anchored).to_have_count(1)


def test_a_reported_step_is_called_no_measurement_of_a_link(
    page: Page, site: Site, measured: Measured
) -> None:
    plan = httpx.get(f"{site.url}/v1/plans/{site.plans['llama']}").json()
    address = f"{site.url}/topologies/{plan['topology']}"
    visit(page, address)
    shares = page.get_by_role("table", name="Links").get_by_role("row")
    unscaled = shares.nth(1).inner_text()
    expect(page.get_by_text("not measured", exact=True)).to_be_visible()
    choice = page.get_by_label("Calibration", exact=True)
    expect(choice).to_have_value("")
    option = choice.locator(f'option[value="{measured.anchored}"]')
    expect(option).to_contain_text("anchored to 1 reported step,")
    choice.select_option(measured.anchored)
    tag = page.locator("#view .tag").filter(has_text="anchored to 1 reported step")
    expect(tag).to_have_class("tag warn")
    expect(page.get_by_text("measured", exact=True)).to_have_count(0)
    expect(shares.nth(1)).not_to_have_text(unscaled)
    check(page, "topology-anchored")
    choice.select_option("")
    expect(page).to_have_url(address)
    visit(page, f"{site.url}/topologies")
    row = page.get_by_role("table", name="Topologies").get_by_role("row")
    own = row.filter(has=page.locator(f'a[href="/topologies/{plan["topology"]}"]'))
    expect(own).to_contain_text("anchored to 1 reported step")


@pytest.mark.usefixtures("measured")
def test_observed_steps_stand_beside_their_predictions(page: Page, site: Site) -> None:
    plan = httpx.get(f"{site.url}/v1/plans/{site.plans['llama']}").json()
    visit(page, f"{site.url}/topologies/{plan['topology']}")
    found = httpx.get(f"{site.url}/v1/topologies/{plan['topology']}/observations").json()
    chart = page.get_by_role("img", name=re.compile("^Observed over predicted steps"))
    expect(chart.locator(".observation")).to_have_count(len(found["observations"]))
    stacks = page.get_by_role("table", name="Observed steps by stack")
    row = stacks.get_by_role("row").filter(has_text="torchtitan 0.3")
    (stack,) = (own for own in found["stacks"] if own["stack"] == "torchtitan 0.3")
    assert stack["observations"] >= 1
    expect(row).to_contain_text(f"×{stack['median']:.2f}")
    count = stack["observations"]
    spread = "too few for a spread" if count < 3 else f"×{stack['lowest']:.2f}"
    expect(row).to_contain_text(spread)
    expect(row).to_contain_text(f"anchored to {count} step")
    again = row.get_by_role("link", name="Plan again with this calibration")
    wanted = f"/plans/{stack['plan']}/what-if?calibration={stack['anchored']}"
    expect(again).to_have_attribute("href", wanted)
    one = page.get_by_role("table", name="Observations", exact=True).get_by_role("row").nth(1)
    expect(one).to_contain_text(f"×{found['observations'][0]['ratio']:.2f}")
    shot(page, "topology-observations")
    again.click()
    name = httpx.get(f"{site.url}/v1/calibrations/{stack['anchored']}").json()["name"]
    expect(page.get_by_label("Calibration", exact=True)).to_have_value(name)
    expect(page.get_by_role("button", name="Plan it")).to_be_enabled()


def test_rates_are_labeled_by_their_origin(page: Page, site: Site, measured: Measured) -> None:
    plan = httpx.get(f"{site.url}/v1/plans/{site.plans['llama']}").json()
    links = page.get_by_role("table", name="Links")
    visit(page, f"{site.url}/topologies/{measured.topology}")
    expect(links.get_by_text("measured in this cluster")).not_to_have_count(0)
    visit(page, f"{site.url}/topologies/{plan['topology']}")
    expect(links.get_by_text("published measurements")).not_to_have_count(0)
    visit(page, f"{site.url}/topologies/{plan['topology']}?calibration={measured.anchored}")
    expect(links.get_by_text("anchored by observed steps")).not_to_have_count(0)
    expect(links.get_by_text("measured in this cluster")).to_have_count(0)
    devices = page.get_by_role("table", name="Devices")
    expect(devices.get_by_text("anchored by observed steps")).not_to_have_count(0)


@pytest.mark.usefixtures("measured")
def test_a_mixed_cluster_has_each_group_and_its_names_stay_text(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/topologies/{mixed().id}")
    expect(page.get_by_role("table", name="Links")).to_have_count(2)
    expect(page.get_by_text("<img src=x onerror=alert(1)>").first).to_be_visible()
    expect(page.get_by_text("has no curves of its own")).to_be_visible()
    check(page, "topology-mixed")


def test_a_calibration_says_how_well_it_tells_what_was_measured(
    page: Page, site: Site, measured: Measured
) -> None:
    visit(page, f"{site.url}/calibrations/{measured.calibration}")
    found = httpx.get(f"{site.url}/v1/calibrations/{measured.calibration}/residuals").json()
    rows = page.get_by_role("table", name="Predicted over measured").get_by_role("row")
    expect(rows).to_have_count(1 + len(found["residuals"]))
    worst = found["residuals"][0]
    expect(rows.nth(1)).to_contain_text(f"{worst['median']:.2f}")
    expect(rows.nth(1)).to_contain_text(worst["worst_of"])
    choice = page.get_by_label("of", exact=True).first
    of_products = [own for own in found["sampled"] if own["kind"] == "matmul"]
    dots = page.get_by_role("img", name="Fit of products of matrices").locator("title")
    expect(dots).to_have_count(len(of_products))
    check(page, "calibration")
    choice.select_option("all_reduce")
    among = [own for own in found["sampled"] if own["kind"] == "all_reduce"]
    dots = page.get_by_role("img", name="Residuals of all-reduce").locator("title")
    expect(dots).to_have_count(len(among))
    page.wait_for_url("**kind=all_reduce")
    shot(page, "calibration-all-reduce")
    page.reload()
    expect(page.get_by_role("img", name="Fit of all-reduce")).to_be_visible()


def test_a_calibration_of_steps_or_of_nobody_says_so(
    page: Page, site: Site, measured: Measured
) -> None:
    visit(page, f"{site.url}/calibrations/{measured.anchored}")
    expect(page.get_by_text("1.200 times as long")).to_be_visible()
    expect(page.get_by_text("torchtitan 0.3").first).to_be_visible()
    check(page, "calibration-anchored")
    page.get_by_role("link", name="another one").click()
    expect(page.get_by_text("No samples of it are known")).to_be_visible()
    page.get_by_label("of", exact=True).select_option(index=1)
    page.wait_for_url("**device=**")


def test_an_agent_measures_what_is_asked(page: Page, site: Site, measured: Measured) -> None:
    visit(page, f"{site.url}/agents")
    card = page.get_by_label("rack-7", exact=True)
    expect(card).to_contain_text("alive")
    expect(card).to_contain_text("nothing now")
    expect(card).to_contain_text("none yet")
    check(page, "agents")
    page.get_by_label("Seconds").fill("9")
    page.get_by_label("Agent", exact=True).select_option("rack-7")
    page.get_by_role("button", name="Measure").click()
    page.wait_for_url(re.compile(r"/jobs/job_\w+$"))
    job = page.url.rpartition("/")[2]
    lease = httpx.post(f"{site.url}/v1/agents/{measured.agent}/lease").json()["measurement"]
    assert (lease["id"], lease["asked"]["seconds"]) == (job, 9)
    far = {"phase": "all_reduce 1 MiB", "done": 30, "total": 120}
    sign = {"measurement": job, "attempt": 1, "progress": far}
    httpx.post(f"{site.url}/v1/agents/{measured.agent}/heartbeat", json=sign)
    expect(page.get_by_text("30 of 120 steps")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel the measurement")).to_be_visible()
    expect(page.get_by_text("Best plan so far")).to_have_count(0)
    check(page, "measurement")
    visit(page, f"{site.url}/agents")
    expect(card.get_by_role("link", name="a job")).to_be_visible()
    results = f"{site.url}/v1/agents/{measured.agent}/measurements/{job}/results"
    handed = httpx.post(results, json={"attempt": 1, "samples": noisy().to_dict()})
    assert handed.is_success, handed.text
    expect(card).to_contain_text("nothing now")  # by itself, without a reload
    expect(card.get_by_role("link", name="cal_")).to_be_visible()
    visit(page, f"{site.url}/jobs/{job}")
    page.get_by_role("link", name="The calibration").click()
    page.wait_for_url("**/calibrations/cal_*")


def test_who_is_silent_is_said_to_be_and_nobody_is_asked(page: Page, site: Site) -> None:
    silent = {"id": "agent_0", "state": "silent", "created_at": "2026-11-20T00:00:00.000+00:00",
              "heard_at": "2026-11-21T00:00:00.000+00:00", "agent": AGENT}  # fmt: skip
    page.route("**/v1/agents?*", lambda route: route.fulfill(json={"agents": [silent]}))
    visit(page, f"{site.url}/agents")
    expect(page.get_by_text("silent", exact=True)).to_be_visible()
    expect(page.get_by_text("Nobody is alive who could measure.")).to_be_visible()
    expect(page.get_by_role("button", name="Measure")).to_have_count(0)
    page.route("**/v1/agents?*", lambda route: route.fulfill(json={"agents": []}))
    expect(page.get_by_role("heading", name="No agent yet")).to_be_visible()


def test_what_is_not_there_says_so(page: Page, site: Site) -> None:
    for path in ("topologies/topo_0", "calibrations/cal_0"):
        visit(page, f"{site.url}/{path}")
        expect(page.get_by_role("alert")).to_contain_text("_0'")
