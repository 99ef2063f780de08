"""A new plan: of a file, a stored graph or an example, on devices by kind and number."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from meshwright.client import Client
from meshwright_costmodel.presets import preset
from tests.dashboard.conftest import Site, check, visit
from tests.service.samples import GRAPH

NAMES = """texts => Promise.all([
    import("/dashboard/views/new_plan/preset_name.js"),
    fetch("/v1/presets").then((own) => own.json()),
]).then(([names, {presets}]) => texts.map((text) => {
    const found = names.readPreset(text, presets);
    return found && names.writePreset(found);
}))"""


def graph_file(folder: Path, name: str, **changes: Any) -> Path:
    path = folder / f"{name}.json.gz"
    path.write_bytes(gzip.compress(json.dumps({**GRAPH, "name": name, **changes}).encode()))
    return path


def test_a_file_is_planned_on_chosen_devices(page: Page, site: Site, tmp_path: Path) -> None:
    visit(page, f"{site.url}/agents")
    page.get_by_role("link", name="New plan").click()
    expect(page).to_have_url(f"{site.url}/new")
    ask = page.get_by_role("button", name="Plan it")
    expect(ask).to_be_disabled()
    expect(page.get_by_role("group", name="What is asked")).to_contain_text("choose a model")
    page.get_by_label("Device", exact=True).select_option("h100")
    expect(page.get_by_label("Topology")).to_have_value("h100-1x8")
    page.get_by_label("Devices a node").fill("4")
    page.get_by_label("Nodes", exact=True).fill("2")
    expect(page.get_by_label("Topology")).to_have_value("h100-2x4")
    devices = page.get_by_role("group", name="Devices")
    expect(devices).to_contain_text("8 devices")
    links = preset("h100-2x4").levels
    for level in links:
        expect(devices).to_contain_text(f"{level.link.bytes_per_s / 1e9:.0f}")
        expect(devices).to_contain_text(level.link.kind)
    page.get_by_label("A graph file").set_input_files(graph_file(tmp_path, "dropped"))
    expect(page).to_have_url(re.compile(r"/new\?topology=h100-2x4&graph=graph_"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Plan dropped")
    check(page, "new-plan")
    page.reload()
    expect(page.get_by_label("Devices a node")).to_have_value("4")
    with page.expect_request("**/v1/plan") as sent:
        ask.click()
    body = json.loads(sent.value.post_data or "")
    assert body["topology"] == "h100-2x4"
    assert body["setup"] == {}
    expect(page).to_have_url(re.compile(r"/jobs/job_|/plans/plan_"))


def test_a_file_is_dropped_anywhere_on_the_page(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/new")
    page.evaluate(
        """text => {
            const data = new DataTransfer();
            data.items.add(new File([text], "let go.json"));
            document.querySelector("h1").dispatchEvent(
                new DragEvent("drop", {bubbles: true, cancelable: true, dataTransfer: data}));
        }""",
        json.dumps({**GRAPH, "name": "let go"}),
    )
    expect(page.get_by_role("heading", level=1)).to_have_text("Plan let go")


def test_an_example_is_stored_and_a_stored_graph_is_chosen(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/new?topology=h100-4x8&batch=128")
    page.get_by_label("Examples").select_option("mixtral-8x7b")
    expect(page.get_by_role("heading", level=1)).to_have_text("Plan mixtral-8x7b")
    expect(page.get_by_label("Global batch")).to_have_value("128")
    expect(page.get_by_label("seq", exact=True)).to_have_attribute("placeholder", "4096")
    with Client(site.url) as client:
        graph = client.asked_for(site.plans["face"])["graph"]
    page.get_by_label("Stored graphs").select_option(graph)
    expect(page).to_have_url(re.compile(rf"graph={graph}"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Plan face-head")
    expect(page.get_by_label("Topology")).to_have_value("h100-4x8")
    expect(page.get_by_label("seq", exact=True)).to_have_count(0)


@pytest.mark.parametrize(
    ("goal", "part"),
    [
        ("Fastest plan", {}),
        ("For Megatron-LM", {"target": "megatron-core"}),
        ("For stock PyTorch", {"target": "fsdp2"}),
        ("Inference", {"setup": {"phase": "inference"}}),
    ],
)
def test_a_goal_is_a_choice_of_fields(
    page: Page, site: Site, goal: str, part: dict[str, Any]
) -> None:
    with Client(site.url) as client:
        graph = client.asked_for(site.plans["llama"])["graph"]
    visit(page, f"{site.url}/new?graph={graph}&topology=h100-1x8")
    page.get_by_role("radio", name="Inference").check()
    page.get_by_role("radio", name=goal).check()
    page.reload()
    expect(page.get_by_role("radio", name=goal)).to_be_checked()
    page.route("**/v1/plan", lambda route: route.abort())
    with page.expect_request("**/v1/plan") as sent:
        page.get_by_role("button", name="Plan it").click()
    body = json.loads(sent.value.post_data or "")
    assert body == {"graph": graph, "topology": body["topology"], "setup": {}, **part}
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer")


def test_more_options_are_folded_unless_the_address_says_one(page: Page, site: Site) -> None:
    with Client(site.url) as client:
        graph = client.asked_for(site.plans["face"])["graph"]
    visit(page, f"{site.url}/new?graph={graph}&topology=h100-1x8")
    expect(page.get_by_label("Kept free")).to_be_hidden()
    page.get_by_text("More options").click()
    page.get_by_label("Kept free").fill("20")
    page.reload()
    expect(page.get_by_label("Kept free")).to_have_value("20")
    expect(page.get_by_label("Kept free")).to_be_visible()
    check(page, "new-plan-more")


def test_a_wrong_file_says_what_is_wrong(page: Page, site: Site, tmp_path: Path) -> None:
    visit(page, f"{site.url}/new")
    field, alert = page.get_by_label("A graph file"), page.get_by_role("alert")
    wrong = tmp_path / "wrong.json"
    wrong.write_text("not a graph")
    field.set_input_files(wrong)
    expect(alert).to_contain_text("this is not JSON")
    field.set_input_files(graph_file(tmp_path, "loose", outputs=["nowhere"]))
    expect(alert).to_contain_text("nowhere")
    packed = graph_file(tmp_path, "cut")
    packed.write_bytes(packed.read_bytes()[:-20])
    field.set_input_files(packed)
    expect(alert).to_contain_text("gzip")
    expect(field).to_have_attribute("aria-invalid", "true")
    bomb = tmp_path / "huge.json.gz"
    bomb.write_bytes(gzip.compress(b" " * (65 << 20)))
    field.set_input_files(bomb)
    expect(alert).to_contain_text(re.compile("67,108,864|64 MiB"))
    check(page, "new-plan-wrong")
    field.set_input_files(graph_file(tmp_path, "right"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Plan right")


def test_a_topology_that_is_none_is_said_at_its_field(page: Page, site: Site) -> None:
    with Client(site.url) as client:
        graph = client.asked_for(site.plans["face"])["graph"]
    visit(page, f"{site.url}/new?graph={graph}&topology=h100-2x8")
    field = page.get_by_label("Topology")
    said = page.locator("#fault-topology")
    page.get_by_label("Devices a node").fill("9")
    expect(field).to_have_attribute("aria-invalid", "")
    expect(said).to_contain_text("cannot hold 9 devices")
    expect(page.get_by_label("Devices a node")).to_be_focused()
    page.get_by_role("button", name="Plan it").click()
    expect(field).to_be_focused()
    expect(said).to_contain_text("cannot hold 9 devices")
    page.get_by_label("Devices a node").fill("8")
    expect(said).to_be_empty()
    page.get_by_label("Device", exact=True).select_option("tpu-v5p")
    expect(field).to_have_value("tpu-v5p-2x4x4x4")
    expect(page.get_by_label("Torus of a slice")).to_have_value("4x4x4")
    expect(page.get_by_role("group", name="Devices")).to_contain_text("128 devices")


def test_a_stored_topology_is_chosen_by_its_name(page: Page, site: Site) -> None:
    document = preset("h100-1x8").to_dict() | {"name": "the lab's own"}
    with Client(site.url) as client:
        graph = client.asked_for(site.plans["face"])["graph"]
        client.upload_topology(type(preset("h100-1x8")).from_dict(document))
    visit(page, f"{site.url}/new?graph={graph}")
    page.get_by_label("Topology").fill("the lab's own")
    expect(page.get_by_role("group", name="Devices")).to_contain_text("8 devices")
    expect(page.get_by_label("Nodes", exact=True)).to_be_hidden()
    page.route("**/v1/plan", lambda route: route.abort())
    with page.expect_request("**/v1/plan") as sent:
        page.get_by_role("button", name="Plan it").click()
    assert json.loads(sent.value.post_data or "")["topology"].startswith("topo_")


def test_names_of_presets_are_taken_apart_and_put_together(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/agents")
    texts = ["h100-8x8", "a100-80g-128x8", "gb200-8x72", "tpu-v5p-8x8x8", "tpu-v6e-4x16x16"]
    assert page.evaluate(NAMES, texts) == texts
    for text in texts:
        assert preset(text).name == text
    assert page.evaluate(NAMES, ["h100", "h100-8", "x-8x8", "h100-2x8+a100-2x8"]) == [None] * 4


def test_a_capture_has_its_command(page: Page, site: Site) -> None:
    visit(page, f"{site.url}/new")
    page.get_by_text("A model that is not captured yet").click()
    expect(page.get_by_text("meshwright capture hf config.json")).to_be_visible()
    page.get_by_role("heading", level=1).click()
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.get_by_role("table", name="Plans").wait_for()
    page.keyboard.press("n")
    expect(page).to_have_url(f"{site.url}/new")


def test_devices_that_share_a_port_have_a_part_of_its_bandwidth(page: Page, site: Site) -> None:
    # DGX-1: eight GPUs on four ports of 12.5 GB/s
    visit(page, f"{site.url}/new?topology=v100-2x8")
    expect(page.get_by_text("6.25\u00a0GB/s per device each way")).to_be_visible()
