"""Why an op has its strategy: what the service found out, on the page."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
from playwright.sync_api import Locator, Page, Route, expect

from tests.dashboard.conftest import Site, check, visit


def test_every_strategy_says_what_it_would_do_to_the_whole(page: Page, site: Site) -> None:
    plan = site.plans["face"]
    visit(page, f"{site.url}/plans/{plan}/why")
    expect(page.get_by_role("heading", name="Which op?")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("trunk.conv1")
    page.keyboard.press("Enter")
    table = page.get_by_role("table", name="Strategies of trunk.conv1")
    expect(table).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    asked = {"op": "trunk.conv1", "seconds": "20"}
    found = httpx.get(f"{site.url}/v1/plans/{plan}/explain", params=asked).json()
    (group,) = found["groups"]
    solved = [own for own in group["alternatives"] if own["verdict"] not in LEFT]
    if len(solved) > AT_FIRST:  # on a busy machine the time is over before
        page.get_by_role("button", name=f"Show all {len(solved)}").click()
    expect(table.get_by_role("row")).to_have_count(1 + len(solved))
    expect(table.get_by_role("row").nth(1)).to_contain_text("chosen")
    chosen = group["alternatives"][0]["strategy"]
    for factor, axes in chosen.items():
        if axes:
            words = f"{group['factors'][factor]} over {' '.join(axes)}"
            expect(table.get_by_role("row").nth(1)).to_contain_text(words)
    expect(page.get_by_text(found["memory"]["why"], exact=True)).to_be_visible()
    assert "op=trunk.conv1" in page.url
    check(page, "why")
    page.reload()
    expect(table).to_be_visible()
    table.get_by_role("link", name="Plan with").first.click()
    page.wait_for_url("**/what-if?pin=trunk.conv1*")


LEFT = ("not solved", "not allowed")
AT_FIRST = 12  # strategies that the page shows


def test_one_of_many_equal_ops_is_searched_alone_and_pinned_alone_or_with_all(
    page: Page, site: Site
) -> None:
    visit(page, f"{site.url}/plans/{site.plans['llama']}/why?op=model.layers.3.mlp.up_proj")
    expect(page.get_by_text("Searched: model.layers.3.mlp.up_proj alone.")).to_contain_text(
        "It is one of 32 ops that match model.layers.*.mlp.up_proj"
    )
    for words, op in (("this op", "3"), ("all 32", "*")):
        link = page.get_by_role("link", name=f"Plan {words} with it").first
        assert pins(link) == [f"model.layers.{op}.mlp.up_proj"]
    page.get_by_role("link", name="explain all of them").click()
    expect(page).to_have_url(re.compile(r"op=model.layers.\*.mlp.up_proj|op=model.layers.%2A"))
    expect(page.get_by_text("Searched: the 32 ops that match")).to_be_visible()
    for heading in page.get_by_role("heading", level=2).all():
        assert heading.inner_text().count("×") <= 1
    groups = page.get_by_role("table", name=re.compile("^Strategies of model.layers"))
    for group in groups.all():
        link = group.get_by_role("link", name=re.compile("Plan all .* with it")).first
        if link.count():
            assert all(re.fullmatch(PINNED, glob) for glob in pins(link))


PINNED = r"model\.layers\.(\*|\d+)\.mlp\.up_proj"


def pins(link: Locator) -> list[str]:
    """The globs that a link to a what-if pins."""
    address = urlsplit(link.get_attribute("href") or "")
    return [pin.partition(":")[0] for pin in parse_qs(address.query)["pin"]]


def test_a_box_of_repeats_asks_about_all_of_them_or_one(page: Page, site: Site) -> None:
    plan = f"{site.url}/plans/{site.plans['llama']}"
    opened = {"open": ["model", "model.layers", "model.layers.0", "model.layers.0.mlp"]}
    layout = httpx.get(plan.replace("/plans/", "/v1/plans/") + "/layout", params=opened).json()
    box = next(own for own in layout["boxes"] if own.get("op") and own.get("times", 1) > 1)
    query = urlencode({"open": layout["open"], "op": box["id"]}, doseq=True)
    visit(page, f"{plan}/graph?{query}")
    panel = page.get_by_role("complementary", name="Selected")
    glob = re.sub(r"\.\d+\.", ".*.", box["op"])
    alone = panel.get_by_role("link", name=f"Why? {box['op']} alone")
    every = panel.get_by_role("link", name=f"Why this strategy? All of {glob}")
    for link, op in ((alone, box["op"]), (every, glob)):
        assert parse_qs(urlsplit(link.get_attribute("href") or "").query) == {"op": [op]}


def test_an_op_that_is_not_there_is_named(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['face']}/why?op=nothing*")
    expect(page.get_by_role("alert")).to_contain_text("nothing*")


def test_the_search_is_stopped(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/plans/{site.plans['llama']}/why")
    page.get_by_label("Op, or a glob of ops").fill("model.layers.*.mlp.down_proj")
    page.get_by_role("button", name="Explain").click()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("heading", name="Stopped")).to_be_visible()


def test_the_costliest_ops_are_offered_before_a_question(page: Page, site: Site) -> None:
    plan = site.plans["llama"]
    groups = httpx.get(f"{site.url}/v1/plans/{plan}/costliest-ops").json()["groups"]
    assert len(groups) == 10
    visit(page, f"{site.url}/plans/{plan}/why?seconds=5")
    table = page.get_by_role("table", name="Costliest ops")
    expect(table.get_by_role("row")).to_have_count(1 + len(groups))
    check(page, "why-costliest")
    table.get_by_role("link").first.click()
    expect(page.get_by_label("Op, or a glob of ops")).to_have_value(groups[0]["glob"])
    expect(page.get_by_text("Searching the plan again")).to_be_visible()


def test_a_longer_search_follows_with_the_rows_of_the_shorter_one_in_sight(
    page: Page, site: Site
) -> None:
    asked: list[str] = []
    short = {"complete": False, "seconds": 5}

    def answer(route: Route) -> None:
        seconds = parse_qs(urlsplit(route.request.url).query)["seconds"][0]
        asked.append(seconds)
        found = route.fetch().json()
        route.fulfill(json=found | (short if seconds == "5" else {"complete": True}))

    page.route("**/explain?*", answer)
    visit(page, f"{site.url}/plans/{site.plans['face']}/why?op=trunk.conv1&seconds=60")
    expect(page.get_by_role("table", name="Strategies of trunk.conv1")).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    expect(page.get_by_text("were not enough")).to_have_count(0)
    assert asked == ["5", "20"]
