"""A plan's request, changed and asked again; what comes of it opens beside the plan."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from meshwright.cli.pins import parse_pin
from meshwright.client import Client
from meshwright.schema import Request, RequestError
from meshwright.schema.request_options import Wishes
from tests.dashboard.conftest import Site, check, visit

# documents that a list offers, pins, which have an editor, and the plan that a job goes on from
ELSEWHERE = {
    "/schema_version", "/setup/schema_version", "/graph", "/topology", "/calibration", "/before",
    "/pins",
}  # fmt: skip
NOTATION = """text => import("/dashboard/views/what_if/notation.js").then((notation) => {
    const pin = notation.readPin(text);
    return [pin, notation.writePin(pin)];
})"""


def address(site: Site, name: str, query: str = "") -> str:
    return f"{site.url}/plans/{site.plans[name]}/what-if{query}"


def test_another_cluster_and_batch_open_beside_the_plan(page: Page, site: Site) -> None:
    visit(page, address(site, "face"))
    ask = page.get_by_role("button", name="Plan it")
    expect(ask).to_be_disabled()
    page.get_by_label("Topology").fill("h100-1x8")
    page.get_by_label("Global batch").fill("2048")
    page.get_by_label("Kept free").fill("20")
    changes = page.get_by_role("group", name="What is changed")
    expect(changes).to_contain_text("h100-8x8 h100-1x8")
    expect(changes).to_contain_text("10\u00a0% 20\u00a0%")
    expect(page).to_have_url(re.compile(r"topology=h100-1x8&batch=2048&reserve=20"))
    check(page, "what-if")
    page.reload()
    expect(page.get_by_label("Global batch")).to_have_value("2048")
    page.get_by_label("Global batch").press("Enter")
    expect(page).to_have_url(re.compile(r"/compare\?plan="))
    first, second = re.findall(r"plan_\w+", page.url)
    assert first == site.plans["face"]
    with Client(site.url) as client:
        asked = client.asked_for(second)
        assert client.get_topology(asked["topology"]).name == "h100-1x8"
    assert asked["setup"] == {"global_batch": 2048, "memory_reserve": 0.2}


def test_a_pin_in_the_address_is_asked_for(page: Page, site: Site) -> None:
    with Client(site.url) as client:
        own = next(iter(client.strategies(site.plans["face"], op="*")))["op"]
    visit(page, address(site, "face", f"?pin={own}:data_parallel&pin=nothing"))
    pins = page.get_by_role("group", name="Pins")
    expect(pins).to_contain_text(f"{own}:data_parallel")
    expect(pins.get_by_role("alert")).to_contain_text("no ':'")
    page.get_by_role("button", name="Plan it").click()
    expect(page).to_have_url(re.compile(r"/compare\?plan="))
    made = re.findall(r"plan_\w+", page.url)[1]
    with Client(site.url) as client:
        assert client.asked_for(made)["pins"] == [{"op": own, "data_parallel": True}]
    visit(page, f"{site.url}/plans/{made}/what-if")
    pins.get_by_role("button", name="Take away").click()
    expect(pins.get_by_role("button", name="Keep")).to_be_visible()
    expect(page).to_have_url(re.compile("unpin="))
    page.get_by_role("button", name="Plan it").click()
    expect(page).to_have_url(re.compile(rf"/compare\?plan={made}&plan={site.plans['face']}"))


def test_what_is_refused_is_said_where_it_stands(page: Page, site: Site) -> None:
    visit(page, address(site, "face", "?topology=h100-of-my-dreams"))
    page.get_by_role("button", name="Plan it").click()
    expect(page.get_by_role("alert").last).to_contain_text("h100-of-my-dreams")
    expect(page.get_by_label("Topology")).to_be_focused()
    expect(page.get_by_label("Topology")).to_have_attribute("aria-invalid", "")
    page.get_by_label("Topology").fill("h100-8x8")
    page.get_by_label("New pin").fill("no such op:data_parallel")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Plan it").click()
    expect(page.get_by_role("alert").last).to_contain_text("no such op")


def test_a_change_that_makes_no_difference_says_so(page: Page, site: Site) -> None:
    visit(page, address(site, "face"))
    page.get_by_label("Execution").select_option("yes")
    page.get_by_role("button", name="Plan it").click()
    expect(page).to_have_url(re.compile("/jobs/job_"))
    expect(page.get_by_text("the change makes no difference")).to_be_visible(timeout=120_000)
    expect(page.get_by_text("verified")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Execution")).to_have_value("yes")
    page.get_by_role("button", name="Plan it").click()
    expect(page.get_by_role("alert")).to_contain_text("It comes to this very plan")


def test_every_choice_of_the_form_is_one_of_the_request(page: Page, site: Site) -> None:
    visit(page, address(site, "llama"))
    page.get_by_label("Recompute").select_option("auto")
    page.get_by_label("In shards").select_option("3")
    page.get_by_label("On the host").select_option("optimizer")
    page.get_by_label("Pipeline ranks").fill("auto")
    page.get_by_label("Microbatches").fill("8")
    page.get_by_label("seq", exact=True).fill("4096")
    page.get_by_label("Solver").select_option("dynamic_programming")
    page.get_by_label("Axes of a mesh").fill("2")
    page.get_by_label("Execution").select_option("yes")
    with page.expect_request("**/v1/plan") as sent:
        page.get_by_role("button", name="Plan it").click()
    expect(page).to_have_url(re.compile("/jobs/job_"))
    body: dict[str, Any] = json.loads(sent.value.post_data or "")
    assert {name: body[name] for name in body if name not in ("graph", "topology")} == {
        "setup": {"symbols": {"seq": 4096}, "microbatches": 8},
        "pipeline": {"ranks": None},
        "recompute": {},
        "constraints": {"optimizer_parallel": {"level": 3}, "offload": "optimizer"},
        "solver": "dynamic_programming",
        "budget": {"max_axes": 2},
        "verify": True,
    }
    page.get_by_role("button", name="Cancel the search").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the search").click()
    expect(page.get_by_role("button", name="Cancel the search")).to_have_count(0)


def test_the_form_can_say_all_that_a_request_can(page: Page, site: Site) -> None:
    visit(page, address(site, "llama"))
    found = page.locator("[data-pointer]").evaluate_all("all => all.map(f => f.dataset.pointer)")
    for own in sayable(Request.model_json_schema(), ""):
        places = [f"{pointer}/" for pointer in found if pointer != "/degrees"]  # that says whether
        assert any(f"{own}/".startswith(at) or at.startswith(f"{own}/") for at in places), own


def sayable(schema: dict[str, Any], pointer: str) -> Iterator[str]:
    """Pointers of all that is no object of its own, but what is chosen elsewhere."""
    definitions: dict[str, Any] = schema["$defs"]

    def walk(own: dict[str, Any], pointer: str) -> Iterator[str]:
        kinds = [own, *own.get("anyOf", ())]
        inner = [definitions[kind["$ref"].split("/")[-1]] for kind in kinds if "$ref" in kind]
        fields = [pair for kind in (own, *inner) for pair in kind.get("properties", {}).items()]
        if not fields and pointer not in ELSEWHERE:
            yield pointer
        for name, field in fields:
            if f"{pointer}/{name}" not in ELSEWHERE:
                yield from walk(field, f"{pointer}/{name}")

    yield from walk(schema, pointer)


def test_a_strategy_can_be_stated(page: Page, site: Site) -> None:
    visit(page, address(site, "llama"))
    expect(page.get_by_label("Tensor parallel")).to_be_hidden()
    page.get_by_role("combobox", name="Strategy").select_option("stated")
    page.get_by_label("Tensor parallel").fill("4")
    page.get_by_label("Sequence parallel").select_option("yes")
    page.get_by_label("ZeRO").select_option("1")
    page.get_by_label("Pipeline ranks").fill("2")
    page.get_by_label("Schedule").select_option("interleaved_1f1b")
    page.get_by_label("Stages a rank").fill("2")
    page.get_by_label("Microbatches").fill("4")
    page.get_by_label("Recompute").select_option("full")
    page.get_by_label("In blocks").fill("3")
    group = page.get_by_role("group", name="How it is run")
    group.get_by_text("more").click()
    group.get_by_label("Master copy").select_option("none")
    group.get_by_label("Buckets, all-gather").fill("100")
    group.get_by_label("All-to-all").select_option("no")
    check(page, "what-if-stated")
    page.reload()
    with page.expect_request("**/v1/plan") as sent:
        page.get_by_role("button", name="Plan it").click()
    expect(page).to_have_url(re.compile("/jobs/job_|/compare"))
    body: dict[str, Any] = json.loads(sent.value.post_data or "")
    assert {name: body[name] for name in body if name not in ("graph", "topology")} == {
        "setup": {
            "microbatches": 4, "master_dtype": None, "allow_all_to_all": False,
            "fusion": {"all_gather": {"mode": "size", "size_mb": 100}},
        },
        "degrees": {"tp": 4, "sequence_parallel": True, "zero": 1},
        "pipeline": {"ranks": 2, "schedule": "interleaved_1f1b", "stages_per_rank": 2},
        "recompute": {"policy": "full", "blocks": 3},
    }  # fmt: skip
    Wishes.model_validate({name: body[name] for name in ("degrees", "pipeline", "recompute")})


@pytest.mark.parametrize(
    ("query", "label"),
    [
        ("stated=stated&dp=3&ep=2", "Expert parallel (ep)"),
        ("stated=stated&tp=7", "Tensor parallel (tp)"),
        ("stated=stated&sequence-parallel=yes", "Sequence parallel"),
        ("pipeline=4&cuts=a", "Cuts"),
        ("batch=9&microbatches=2", "Microbatches"),
        ("stated=stated&module=model.*", "Only ops of"),
        ("buckets-reduce_scatter=after%203%203", "Buckets, reduce-scatter"),
        ("buckets-all_gather=after%203%202", "Buckets, all-gather"),
        ("zero=0&shard-size=8", "Shards over"),
        ("zero=3&accumulation=no", "Summed gradients"),
    ],
)
def test_each_fault_stands_beside_what_it_is_of(
    page: Page, site: Site, query: str, label: str
) -> None:
    visit(page, address(site, "llama", f"?{query}"))
    page.get_by_role("button", name="Plan it").click()
    field = page.get_by_label(label, exact=True)
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "")
    said = page.locator(f"#{(field.get_attribute('aria-describedby') or '').split()[-1]}")
    expect(said).not_to_be_empty()
    expect(page.get_by_role("alert")).to_contain_text(said.inner_text())


def test_what_does_not_fit_says_by_how_much_and_what_takes_the_most(page: Page, site: Site) -> None:
    visit(page, address(site, "llama", "?topology=h100-1x8&batch=4096&microbatches=1"))
    page.get_by_role("button", name="Plan it").click()
    binding = page.get_by_role("region", name="Nothing fits in memory")
    expect(binding).to_be_visible()
    expect(binding).to_contain_text(re.compile(r"\d\u00a0TiB short on a device"))
    expect(binding).to_contain_text("saved activations")
    expect(page.get_by_role("table", name="Largest tensors")).to_contain_text("mlp")
    check(page, "job-infeasible")
    visit(page, f"{site.url}/?state=infeasible")
    searches = page.get_by_role("table", name="Searches").locator("tbody tr")
    found = searches.filter(has_text="llama").first
    expect(found).to_contain_text("nothing fits")
    found.focus()
    page.keyboard.press("Enter")
    expect(binding).to_be_visible()
    page.get_by_role("link", name="Ask again with a change").click()
    expect(page.get_by_label("Global batch")).to_have_value("4096")
    page.get_by_label("Microbatches").fill("512")
    page.get_by_role("button", name="Plan it").click()
    expect(page.get_by_role("link", name="Open the plan")).to_be_visible()


@pytest.mark.parametrize(
    "text",
    [
        "*.q_proj:n=gpu",
        "l1:b=dp+cp,k=tp",
        "l1:",
        "a:b:data_parallel",
        "*.q:((dp,1),(tp,1))->((dp,1,tp),)",
        "x:((8,1),_)",
        "x:->(_,(2,dp+tp))",
    ],
)
def test_pins_are_read_as_the_command_reads_them(page: Page, site: Site, text: str) -> None:
    visit(page, address(site, "face"))
    pin, written = page.evaluate(NOTATION, text)
    wanted = parse_pin(text)
    assert pin == wanted.model_dump(mode="json")
    assert written == str(wanted)


@pytest.mark.parametrize(
    "text", ["nothing", ":n=a", "x:n", "x:n=a,n=b", "x:1 2=a", "x:((a)", "x:((0,1))", "x:((,1))"]
)
def test_what_is_no_pin_is_refused_as_the_command_refuses_it(
    page: Page, site: Site, text: str
) -> None:
    with pytest.raises(RequestError):
        parse_pin(text)
    visit(page, address(site, "face"))
    page.get_by_label("New pin").fill(text)
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("group", name="Pins").get_by_role("alert")).not_to_be_empty()
    expect(page.get_by_label("New pin")).to_be_focused()
