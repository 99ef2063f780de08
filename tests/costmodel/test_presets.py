import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.schema import Topology, TopologyError
from meshwright_costmodel.presets import preset, presets


def shape(name):
    return [(level.name, level.size) for level in preset(name).levels]


def test_a_preset_has_its_nodes_and_the_devices_of_a_node():
    assert shape("h100-8x8") == [("node", 8), ("gpu", 8)]
    assert shape("h100-128x8") == [("node", 128), ("gpu", 8)]
    assert shape("910b-4x8") == [("node", 4), ("npu", 8)]


def test_sizes_need_not_be_powers_of_two():
    assert shape("h100-3x4") == [("node", 3), ("gpu", 4)]
    assert shape("a100-40g-5x7") == [("node", 5), ("gpu", 7)]


def test_levels_of_size_one_are_left_out():
    assert shape("h100-1x8") == [("gpu", 8)]
    assert shape("h100-4x1") == [("node", 4)]
    assert shape("h100-1x1") == [("gpu", 1)]


def test_the_eight_devices_of_a_910a_node_stand_on_two_boards():
    assert shape("910a-4x8") == [("node", 4), ("board", 2), ("npu", 4)]
    assert shape("910a-4x6") == [("node", 4), ("board", 2), ("npu", 3)]
    assert shape("910a-4x4") == [("node", 4), ("npu", 4)]


def test_a_full_mesh_with_fewer_devices_has_fewer_wires():
    assert preset("mi300x-1x8").levels[0].link.bytes_per_s == pytest.approx(7 * 64e9)
    assert preset("mi300x-1x4").levels[0].link.bytes_per_s == pytest.approx(3 * 64e9)
    assert preset("h100-1x4").levels[0].link.bytes_per_s == 450e9


def test_two_v100_share_a_network_port_unless_they_are_alone():
    assert preset("v100-2x8").levels[0].link.device_bytes_per_s == 6.25e9
    assert preset("v100-2x1").levels[0].link.device_bytes_per_s == 12.5e9


def test_a_device_has_an_eighth_of_its_host_whatever_else_is_taken():
    share = preset("h100-1x8").host
    assert share.memory_bytes == 2**41 // 8
    assert share.memory_bytes_per_s == pytest.approx(614.4e9 / 8)
    assert preset("h100-4x2").host == share
    assert preset("910b-1x8").host is None


def test_a100_is_short_for_the_80_gigabyte_one():
    assert preset("a100-2x8") == preset("a100-80g-2x8")
    assert preset("A100-80G-2x8").id == preset("a100-80g-2x8").id


@pytest.mark.parametrize("device", presets())
def test_every_preset_device_has_a_topology_with_sources_that_survives_json(device):
    topology = preset(f"{device}-2x8")
    assert topology.device_count == 16
    assert topology.name == f"{device}-2x8"
    assert topology.device.source
    assert topology.source
    assert Topology.from_json(topology.to_json()) == topology


@pytest.mark.parametrize("device", presets())
def test_narrower_numbers_are_never_slower_to_multiply(device):
    sheet = preset(f"{device}-1x8").device
    dtypes = ("float32", "bfloat16", "float16", "float8_e4m3")
    rates = [sheet.peak_flops_per_s(dtype) for dtype in dtypes]
    assert rates[0] <= rates[1] <= rates[2]
    assert rates[1] <= rates[3]


@pytest.mark.parametrize("name", ["h100", "h100-8", "h100-0x8", "h100-8x0", "8x8", "", "h100 8x8"])
def test_a_name_of_another_form_is_refused_with_the_form(name):
    with pytest.raises(TopologyError, match="<device>-<nodes>x<devices per node>"):
        preset(name)


def test_an_unknown_device_is_refused_with_the_nearest_and_all_known_ones():
    with pytest.raises(TopologyError) as refused:
        preset("mi300-2x8")
    assert "'mi300-2x8'" in refused.value.detail
    assert "'mi300x-8x8'" in refused.value.detail
    for device in presets():
        assert device in refused.value.detail


def test_more_devices_than_a_node_holds_are_refused():
    with pytest.raises(TopologyError, match=r"cannot hold 9 devices.*1 to 8"):
        preset("h100-8x9")
    with pytest.raises(TopologyError, match="cannot hold 5 devices evenly"):
        preset("910a-1x5")


def test_more_devices_than_any_topology_has_are_refused():
    with pytest.raises(TopologyError, match="at most 1,048,576 devices"):
        preset("h100-131073x8")


@given(st.text(max_size=40))
def test_text_that_is_no_preset_raises_only_topology_errors(name):
    with pytest.raises(TopologyError):
        preset(name + "!")


def test_names_joined_by_plus_are_groups_of_one_cluster():
    mixed = preset("A100-4x8+h100-2x4")
    assert mixed.name == "a100-80g-4x8+h100-2x4"
    assert mixed.device_count == 40
    for group, alone in zip(mixed.groups, ("a100-4x8", "h100-2x4"), strict=True):
        own = preset(alone)
        assert (group.device, group.levels, group.host) == (own.device, own.levels, own.host)
        # as its nodes reach one another
        assert group.uplink == own.levels[0].link


def test_a_group_of_one_node_has_an_uplink_too():
    single = preset("h100-1x8+a100-1x8").groups[0]
    assert [level.name for level in single.levels] == ["gpu"]
    assert single.uplink == preset("h100-2x8").levels[0].link


@pytest.mark.parametrize("name", ["h100-8x8+", "+h100-8x8", "h100-8x8++a100-1x8", "h100+a100-1x8"])
def test_every_part_of_a_mixed_name_is_a_preset(name):
    with pytest.raises(TopologyError, match="<device>-<nodes>x<devices per node>"):
        preset(name)


def test_a_slice_of_a_pod_is_a_torus_where_it_closes_to_rings():
    assert shape("tpu-v5p-8x8x8") == [("x", 8), ("y", 8), ("z", 8)]
    kinds = {
        name: [level.link.kind for level in preset(name).levels]
        for name in ("tpu-v5p-8x8x8", "tpu-v5p-2x2x4", "tpu-v5e-16x16", "tpu-v5e-8x16")
    }
    assert kinds == {
        "tpu-v5p-8x8x8": ["torus"] * 3,
        "tpu-v5p-2x2x4": ["grid"] * 3,  # less than a cube of 4 x 4 x 4
        "tpu-v5e-16x16": ["torus"] * 2,
        "tpu-v5e-8x16": ["grid", "torus"],
    }


def test_one_number_more_than_a_torus_has_dimensions_stands_for_slices():
    assert shape("v6e-4x16x16") == [("slice", 4), ("x", 16), ("y", 16)]
    assert shape("ironwood-2x8x8x8")[0] == ("slice", 2)
    assert preset("v6e-4x16x16").device_count == 1024


@pytest.mark.parametrize("name", ["v5e-32x16", "v5e-2x3x4x5", "tpu-v4-32x4x4"])
def test_a_slice_larger_than_a_pod_is_refused_with_the_pod(name):
    with pytest.raises(TopologyError, match=r"dimensions of at most .*Write tpu-"):
        preset(name)


def test_a_domain_of_nvlink_may_have_72_devices_and_a_supernode_768():
    assert shape("gb200-32x72") == [("node", 32), ("gpu", 72)]
    assert shape("910c-1x768") == [("npu", 768)]
    with pytest.raises(TopologyError, match="1 to 72"):
        preset("gb300-2x73")
