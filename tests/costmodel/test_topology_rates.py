"""What links and devices keep, beside what they promise; worked by hand where nothing is lost."""

from __future__ import annotations

import pytest

from meshwright.schema import Topology
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.fitting import fit_calibration
from meshwright_costmodel.presets import preset
from meshwright_costmodel.topology_rates import PAYLOADS, SIZES, rates_in
from tests.costmodel.test_collectives import PERFECT
from tests.costmodel.test_fitting import samples


def test_a_perfect_cluster_keeps_all_that_it_promises() -> None:
    own = preset("h100-4x8")
    found = rates_in(own, PERFECT)
    (group,) = found.groups
    assert (group.curves, group.relative, group.launch_ns) == (False, None, 0)
    assert group.kept_memory_bytes_per_s == group.promised_memory_bytes_per_s == 3.35e12
    for products in group.products:
        assert products.kept_flops_per_s == pytest.approx(products.promised_flops_per_s)
    node, gpu = group.levels
    assert (node.promised_bytes_per_s, gpu.promised_bytes_per_s) == (50e9, 450e9)
    # 1 GiB over 8 devices: 7/8 of it at 450 GB/s take 2.09 ms, three steps of 4 us come on top
    ns = 3 * 4000 + 2**30 * 7 / 8 / 450
    gather = gpu.collectives[1]
    assert (gather.kind, gather.ns[-1]) == ("all_gather", pytest.approx(ns))
    for level in (node, gpu):  # a device's port is full whatever the collective
        for own_kind in level.collectives:
            assert own_kind.bytes_per_s[-1] == pytest.approx(level.promised_bytes_per_s, rel=0.02)
    assert gpu.kept_bytes_per_s == pytest.approx(2**30 * 7 / 8 / ns * 1e9)
    # 1 KiB over 4 nodes: two steps of 14 us, and 15 ns on the way
    assert node.start_ns == pytest.approx(2 * 14_000 + 1024 * 3 / 4 / 50)
    assert [len(own.ns) for own in node.collectives] == [len(PAYLOADS)] * 4


def test_a_level_of_one_unit_has_no_rate() -> None:
    own = preset("h100-1x8").to_dict()
    own["levels"].insert(0, {**own["levels"][0], "name": "alone", "size": 1})
    alone, gpu = rates_in(Topology.from_dict(own), PERFECT).groups[0].levels
    assert (alone.kept_bytes_per_s, alone.start_ns, alone.collectives) == (None, None, ())
    assert gpu.kept_bytes_per_s is not None


def test_a_fit_to_a_cluster_keeps_less_and_larger_products_keep_more() -> None:
    own = samples()
    found = rates_in(own.topology, fit_calibration(own), measured=True)
    assert found.measured
    (group,) = found.groups
    assert (group.curves, group.relative) == (True, None)
    assert 0.5 < group.kept_memory_bytes_per_s / group.promised_memory_bytes_per_s < 1
    for products in group.products:
        assert len(products.flops_per_s) == len(SIZES)
        assert list(products.flops_per_s) == sorted(products.flops_per_s)
        assert products.kept_flops_per_s < products.promised_flops_per_s
    for level in group.levels:
        assert level.kept_bytes_per_s is not None
        assert 0.3 < level.kept_bytes_per_s / level.promised_bytes_per_s < 1


def test_every_group_of_a_mixed_cluster_has_its_own_and_a_stranger_its_relative_s() -> None:
    own = preset("h100-2x8").to_dict()
    device = {**own["device"], "name": "nobody's"}
    uplink = own["levels"][0]["link"]
    own |= {"uplink": uplink, "beside": [{"device": device, "levels": own["levels"],
                                          "uplink": uplink}]}  # fmt: skip
    first, second = rates_in(Topology.from_dict(own), default_calibration()).groups
    assert (first.device, first.relative) == ("NVIDIA H100 SXM5 80GB", None)
    assert (second.device, second.devices) == ("nobody's", 16)
    assert second.relative is not None
