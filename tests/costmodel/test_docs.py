import re
from pathlib import Path
from typing import get_args

import pytest

from meshwright.schema import Topology
from meshwright_costmodel.calibrations import default_calibration, published_calibration
from meshwright_costmodel.collectives import (
    Collective,
    Interconnect,
    collective_ns,
)
from meshwright_costmodel.launch_overhead import GRAPH_NODE_NS
from meshwright_costmodel.link_kinds import FULL_MESH_KINDS, NODE_KINDS
from meshwright_costmodel.presets import preset, presets

DOCS = Path(__file__).parents[2] / "docs"
TOPOLOGIES = (DOCS / "reference" / "topologies.md").read_text()
COST_MODEL = (DOCS / "explanation" / "cost-model.md").read_text()


def rows(text, columns):
    """The cells of all table rows that begin with code and have this many columns."""
    cells = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| `")
    ]
    return [row for row in cells if len(row) == columns]


def number(cell):
    return float(cell.replace(",", ""))


def test_the_docs_list_every_preset_device_with_its_numbers():
    table = {row[0]: row[1:] for row in rows(TOPOLOGIES, 8)}
    assert list(table) == presets()
    for name, (title, memory_gib, gb_per_s, *peaks) in table.items():
        device = preset(f"{name}-1x8").device
        assert title == device.name
        assert number(memory_gib) == pytest.approx(device.memory_bytes / 2**30, abs=0.01)
        assert number(gb_per_s) * 1e9 == device.memory_bytes_per_s
        for dtype, peak in zip(
            ("bfloat16", "float16", "float8_e4m3", "float32"), peaks, strict=True
        ):
            if peak == "–":
                assert dtype not in device.flops_per_s
            else:
                assert number(peak) == pytest.approx(device.flops_per_s[dtype] / 1e12, abs=0.01)


def test_the_docs_list_every_host_of_every_preset():
    documented = {row[0]: row[1:] for row in rows(TOPOLOGIES, 5)}
    hosts = {name: preset(f"{name}-1x8").host for name in presets()}
    assert documented.keys() == {name for name, host in hosts.items() if host is not None}
    for name, (title, memory_gib, gb_per_s, link_gb_per_s) in documented.items():
        host = hosts[name]
        assert title == host.name
        assert number(memory_gib) * 2**30 == host.memory_bytes
        assert number(gb_per_s) * 1e9 == pytest.approx(host.memory_bytes_per_s)
        assert number(link_gb_per_s) * 1e9 == host.link.device_bytes_per_s
        assert host.source in TOPOLOGIES


def test_the_docs_list_every_link_of_every_preset():
    documented = [
        (row[0], row[1], row[3], number(row[4]), number(row[5])) for row in rows(TOPOLOGIES, 6)
    ]
    assert documented == [
        (
            name,
            level.name,
            level.link.kind,
            level.link.device_bytes_per_s / 1e9,
            level.link.latency_ns / 1e3,
        )
        for name in presets()
        for level in preset(f"{name}-2x8").levels
    ]


@pytest.mark.parametrize("name", presets())
def test_the_docs_name_the_sources_of_every_preset(name):
    topology = preset(f"{name}-2x8")
    assert topology.device.source in TOPOLOGIES
    assert topology.source in TOPOLOGIES


def test_the_topologies_in_the_docs_are_valid():
    examples = re.findall(r"```json\n(.*?)```", TOPOLOGIES, re.DOTALL)
    topology, mixed = [Topology.from_json(example) for example in examples]
    assert topology.device_count == 64
    assert topology.levels[0].link.device_bytes_per_s == 12.5e9
    assert [group.device.name for group in mixed.groups] == ["old", "new"]
    assert preset("a100-80g-4x8+h100-2x8").device_count == 48


def test_the_docs_name_the_kinds_of_links_with_a_meaning():
    for kind in NODE_KINDS:
        assert f"`{kind}`" in TOPOLOGIES
    for kind in FULL_MESH_KINDS:
        assert f"`{kind}`" in COST_MODEL


@pytest.mark.parametrize("collective", get_args(Collective))
def test_the_docs_price_every_collective(collective):
    assert re.search(rf"^\| .*\b{collective}\b", COST_MODEL, re.MULTILINE)


def test_the_predictions_in_the_docs_are_those_of_the_model():
    table = rows(COST_MODEL, 9)
    assert table
    for name, extents, port, collective, payload, published, predicted, ratio, _ in table:
        sizes = tuple(int(extent) for extent in extents.split("×"))
        links = Interconnect.of(with_port(preset(name), port), published_calibration())
        time_us = (
            collective_ns(collective, sizes, payload_bytes=number(payload), interconnect=links)
            / 1e3
        )
        assert number(predicted) == pytest.approx(time_us, abs=0.5)
        assert number(ratio) == pytest.approx(time_us / number(published), rel=0.04)


def with_port(topology, gigabytes_per_s):
    if gigabytes_per_s == "–":
        return topology
    document = topology.to_dict()
    document["levels"][0]["link"]["bytes_per_s"] = number(gigabytes_per_s) * 1e9
    return Topology.from_dict(document)


def test_the_docs_give_the_default_s_shares_of_what_has_no_curves():
    calibration = default_calibration()
    values = {
        "matmul": calibration.efficiency.matmul,
        "attention": calibration.efficiency.attention,
        "convolution": calibration.efficiency.convolution,
        "memory": calibration.efficiency.memory,
        "link efficiency": calibration.link_efficiency,
        "exposed activation": calibration.exposed.activation,
        "exposed parameter, gradient": calibration.exposed.parameter,
    }
    assert calibration.exposed.parameter == calibration.exposed.gradient
    for constant, value in values.items():
        assert f"| {constant} | {value} |" in COST_MODEL
    assert f"| launch | {calibration.launch_ns / 1000:g} µs |" in COST_MODEL
    assert f"| `graphs` | none | {GRAPH_NODE_NS / 1000:g} µs, or" in COST_MODEL
