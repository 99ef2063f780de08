import pytest

from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.collectives import Interconnect, collective_ns
from meshwright_costmodel.link_kinds import (
    FULL_MESH_KINDS,
    NODE_KINDS,
    SWITCH_KINDS,
    is_full_mesh,
    is_in_node,
    is_reducing_switch,
)
from meshwright_costmodel.presets import preset


@pytest.mark.parametrize("kind", NODE_KINDS)
@pytest.mark.parametrize("spelling", ["{}", "{} 4", "{}-c2c", "{}5"])
def test_a_kind_is_read_in_any_case_and_with_any_suffix(kind: str, spelling: str) -> None:
    for text in (
        spelling.format(kind),
        spelling.format(kind).upper(),
        spelling.format(kind.title()),
    ):
        assert is_in_node(text)
        assert is_full_mesh(text) == (kind in FULL_MESH_KINDS)
        assert is_reducing_switch(text) == (kind in SWITCH_KINDS)


@pytest.mark.parametrize(
    "kind", ["infiniband", "RoCE v2", "ethernet", "slingshot", "my nvlink", "efa"]
)
def test_every_other_kind_is_a_network(kind: str) -> None:
    assert not any(of_kind(kind) for of_kind in (is_in_node, is_full_mesh, is_reducing_switch))


@pytest.mark.parametrize("kind", ["NVLink", "NVLink 4", "nvswitch"])
def test_a_spelling_of_nvlink_costs_what_nvlink_costs(kind: str) -> None:
    topology = preset("h100-2x8")
    inner = topology.levels[-1]
    link = inner.link.model_copy(update={"kind": kind})
    level = inner.model_copy(update={"link": link})
    spelled = topology.model_copy(update={"levels": (*topology.levels[:-1], level)})
    costs = [
        collective_ns(
            "all_reduce",
            (1, 8),
            payload_bytes=2**20,
            interconnect=Interconnect.of(cluster, default_calibration()),
        )
        for cluster in (topology, spelled)
    ]
    assert costs[0] == costs[1]
