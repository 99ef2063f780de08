import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.schema import (
    Axis,
    Calibration,
    Device,
    Efficiency,
    Exposed,
    LayoutError,
    Level,
    Link,
    Mesh,
    MeshAxis,
    Topology,
)
from meshwright_costmodel.calibrations import datasheet_calibration
from meshwright_costmodel.collectives import Interconnect, collective_cost, collective_ns
from meshwright_costmodel.presets import preset
from tests.costmodel.round_curves import round_curves

KINDS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast", "send")
COLLECTIVES = KINDS[:-1]

PERFECT = Calibration(
    name="perfect",
    source="the data sheet is kept",
    efficiency=Efficiency(matmul=1, convolution=1, attention=1, memory=1),
    link_efficiency=1,
    exposed=Exposed(activation=1, parameter=1, gradient=1),
    launch_ns=0,
)


def interconnect(*levels: Level) -> Interconnect:
    device = Device(name="any", memory_bytes=1, memory_bytes_per_s=1, flops_per_s={"float32": 1})
    return Interconnect.of(Topology(device=device, levels=levels), PERFECT)


def level(
    name: str,
    size: int,
    *,
    gigabytes_per_s: float,
    latency_ns: int,
    kind: str = "switch",
    devices_per_port: int = 1,
) -> Level:
    link = Link(
        kind=kind,
        bytes_per_s=gigabytes_per_s * 1e9,
        latency_ns=latency_ns,
        devices_per_port=devices_per_port,
    )
    return Level(name=name, size=size, link=link)


TWO_NODES_OF_FOUR = interconnect(
    level("node", 2, gigabytes_per_s=10, latency_ns=1000),
    level("gpu", 4, gigabytes_per_s=100, latency_ns=100),
)
GB = 10**9


def ns(kind, extents, payload_bytes, links=TWO_NODES_OF_FOUR):
    return collective_ns(kind, extents, payload_bytes=payload_bytes, interconnect=links)


def test_all_gather_inside_a_node_receives_what_is_missing_over_the_fast_link():
    # 3/4 of 8 GB at 100 GB/s = 60 ms; two doubling steps of 100 ns
    assert ns("all_gather", (1, 4), 8 * GB) == pytest.approx(60_000_200)


def test_all_gather_across_nodes_uses_the_ports_of_all_members_of_a_node():
    # half of 8 GB through 4 ports of 10 GB/s = 100 ms, more than the 60 ms inside the node
    assert ns("all_gather", (2, 4), 8 * GB) == pytest.approx(100_001_200)


def test_all_gather_with_one_member_in_a_node_has_one_port():
    assert ns("all_gather", (2, 1), 8 * GB) == pytest.approx(400_001_000)


def test_the_fast_links_limit_a_group_with_many_slow_ports():
    links = interconnect(
        level("node", 2, gigabytes_per_s=50, latency_ns=0),
        level("gpu", 4, gigabytes_per_s=100, latency_ns=0),
    )
    # half of 8 GB through 4 x 50 GB/s = 20 ms, but each device spreads 3/4 of 8 GB inside: 60 ms
    assert ns("all_gather", (2, 4), 8 * GB, links) == pytest.approx(60_000_000)


def test_all_to_all_sends_the_share_of_the_partners_over_each_level():
    # 4 of 8 partners are in the other node: half of 8 GB through the device's own 10 GB/s port
    assert ns("all_to_all", (2, 4), 8 * GB) == pytest.approx(400_001_200)
    # inside a node 3 of 4 partners: 6 GB at 100 GB/s
    assert ns("all_to_all", (1, 4), 8 * GB) == pytest.approx(60_000_200)


def test_broadcast_brings_the_whole_message_into_every_node_and_device():
    assert ns("broadcast", (2, 4), 8 * GB) == pytest.approx(200_001_200)
    assert ns("broadcast", (1, 4), 8 * GB) == pytest.approx(80_000_200)


def test_send_has_one_step_over_the_slowest_level_crossed():
    assert ns("send", (2, 1), 8 * GB) == pytest.approx(800_001_000)
    assert ns("send", (2, 4), 8 * GB) == pytest.approx(800_001_000)
    assert ns("send", (1, 2), 8 * GB) == pytest.approx(80_000_100)


def test_devices_that_share_a_port_share_its_bandwidth():
    shared = interconnect(level("node", 2, gigabytes_per_s=10, latency_ns=0, devices_per_port=2))
    assert ns("all_gather", (2,), 10 * GB, shared) == pytest.approx(1_000_000_000)


def test_a_group_in_a_full_mesh_has_only_the_wires_to_its_own_members():
    # three wires of 30 GB/s each
    mesh = interconnect(level("npu", 4, gigabytes_per_s=90, latency_ns=0, kind="hccs"))
    # half of 6 GB over one wire; 3/4 of 6 GB over three
    assert ns("all_gather", (2,), 6 * GB, mesh) == pytest.approx(100_000_000)
    assert ns("all_gather", (4,), 6 * GB, mesh) == pytest.approx(50_000_000)
    assert ns("send", (4,), 6 * GB, mesh) == pytest.approx(200_000_000)


def test_link_efficiency_scales_the_bandwidth_and_not_the_latency():
    topology = preset("h100-1x8")
    half = PERFECT.model_copy(update={"link_efficiency": 0.5})
    whole_cost = collective_cost("all_gather", (8,), Interconnect.of(topology, PERFECT))
    half_cost = collective_cost("all_gather", (8,), Interconnect.of(topology, half))
    assert half_cost.ns_per_byte == pytest.approx(2 * whole_cost.ns_per_byte)
    assert half_cost.latency_ns == whole_cost.latency_ns


def test_an_unshared_network_port_is_nine_times_slower_than_nvlink_on_h100():
    links = Interconnect.of(preset("h100-8x8"), datasheet_calibration())
    inside = collective_cost("all_gather", (1, 8), links)
    across = collective_cost("all_gather", (8, 1), links)
    assert across.ns_per_byte == pytest.approx(9 * inside.ns_per_byte)


def test_extents_multiply_the_axes_of_a_level():
    mesh = Mesh(
        axes=(
            MeshAxis(name=Axis("a"), size=2, level="node"),
            MeshAxis(name=Axis("b"), size=2, level="gpu"),
            MeshAxis(name=Axis("c"), size=2, level="gpu"),
        )
    )
    assert TWO_NODES_OF_FOUR.extents(mesh, [Axis("a"), Axis("c")]) == (2, 2)
    assert TWO_NODES_OF_FOUR.extents(mesh, [Axis("b"), Axis("c")]) == (1, 4)
    assert TWO_NODES_OF_FOUR.extents(mesh, []) == (1, 1)


def test_extents_refuse_an_axis_or_a_level_that_is_not_there():
    mesh = Mesh(axes=(MeshAxis(name=Axis("a"), size=2, level="pod"),))
    with pytest.raises(LayoutError, match="no axis 'b'"):
        TWO_NODES_OF_FOUR.extents(mesh, [Axis("b")])
    with pytest.raises(LayoutError, match=r"level 'pod'.*node, gpu"):
        TWO_NODES_OF_FOUR.extents(mesh, [Axis("a")])


@st.composite
def interconnects(draw, kinds=("switch", "xgmi")):
    count = draw(st.integers(1, 3))
    return interconnect(
        *(
            level(
                f"level{position}",
                draw(st.integers(1, 9)),
                gigabytes_per_s=draw(st.floats(0.1, 1000)),
                latency_ns=draw(st.integers(0, 50_000)),
                kind=draw(st.sampled_from(kinds)),
                devices_per_port=draw(st.integers(1, 4)),
            )
            for position in range(count)
        )
    )


def groups(links: Interconnect):
    return st.tuples(*(st.integers(1, size) for size in links.sizes))


PAYLOADS = st.integers(0, 2**45)


@given(st.data())
def test_a_group_of_one_device_costs_nothing(data):
    links = data.draw(interconnects())
    kind = data.draw(st.sampled_from(KINDS))
    assert ns(kind, (1,) * len(links.sizes), data.draw(PAYLOADS), links) == 0


@given(st.data())
def test_more_bytes_never_take_less_time(data):
    links = data.draw(interconnects())
    extents, kind = data.draw(groups(links)), data.draw(st.sampled_from(KINDS))
    few, many = sorted((data.draw(PAYLOADS), data.draw(PAYLOADS)))
    assert 0 <= ns(kind, extents, few, links) <= ns(kind, extents, many, links)


@given(st.data())
def test_an_array_of_payloads_gives_the_times_of_its_elements(data):
    links = data.draw(interconnects())
    extents, kind = data.draw(groups(links)), data.draw(st.sampled_from(KINDS))
    payloads = data.draw(st.lists(PAYLOADS, min_size=1, max_size=5))
    times = ns(kind, extents, np.array(payloads, dtype=np.int64), links)
    assert times.dtype == np.float64
    assert times.tolist() == [ns(kind, extents, payload, links) for payload in payloads]


@given(st.data())
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(data):
    links = data.draw(interconnects())
    extents, payload = data.draw(groups(links)), data.draw(PAYLOADS)
    parts = ns("reduce_scatter", extents, payload, links) + ns(
        "all_gather", extents, payload, links
    )
    assert ns("all_reduce", extents, payload, links) == pytest.approx(parts)


@given(st.data())
def test_with_the_same_bytes_for_each_pair_a_larger_group_is_never_cheaper(data):
    links = data.draw(interconnects())
    kind = data.draw(st.sampled_from(("all_gather", "all_to_all")))
    large = data.draw(groups(links))
    small = tuple(data.draw(st.integers(1, extent)) for extent in large)
    shard_bytes = data.draw(st.integers(1, 2**30))
    assert ns(kind, small, shard_bytes * math.prod(small), links) <= ns(
        kind, large, shard_bytes * math.prod(large), links
    ) * (1 + 1e-9)


@given(st.data())
def test_on_switches_more_units_of_the_slowest_level_are_never_cheaper(data):
    links = data.draw(interconnects(kinds=("switch",)))
    extents, payload = data.draw(groups(links)), data.draw(PAYLOADS)
    # in an all_to_all more units also take partners, and so traffic, away from the other levels
    kind = data.draw(st.sampled_from(sorted({*COLLECTIVES} - {"all_to_all"})))
    fewer = (data.draw(st.integers(1, extents[0])), *extents[1:])
    assert ns(kind, fewer, payload, links) <= ns(kind, extents, payload, links) * (1 + 1e-9)


@given(st.data())
def test_m_members_in_a_node_make_a_group_at_most_m_times_faster(data):
    links = data.draw(interconnects())
    kind = data.draw(st.sampled_from(COLLECTIVES))
    extents, payload = data.draw(groups(links)), data.draw(PAYLOADS)
    members = math.prod(extents[1:])
    alone = (extents[0], *(1 for _ in extents[1:]))
    assert ns(kind, alone, payload, links) <= members * ns(kind, extents, payload, links) * (
        1 + 1e-9
    )


def ranged(in_switch=None):
    """Two nodes of four NVLink devices, with the protocols of `round_curves`."""
    levels = (
        level("node", 2, gigabytes_per_s=10, latency_ns=1000, kind="infiniband"),
        level("gpu", 4, gigabytes_per_s=100, latency_ns=100, kind="nvlink"),
    )
    device = Device(name="any", memory_bytes=1, memory_bytes_per_s=1, flops_per_s={"float32": 1})
    curves = (round_curves("any", in_switch=in_switch),)
    calibration = PERFECT.model_copy(update={"curves": curves})
    return Interconnect.of(Topology(device=device, levels=levels), calibration)


def test_small_messages_go_by_the_quick_protocol_and_large_ones_by_the_other():
    # quick: 100 + two steps of 50, 3/4 of the bytes at 25 GB/s; large: 1000 + 2 * 200, at 100 GB/s
    assert ns("all_gather", (1, 4), 1000, ranged()) == pytest.approx(200 + 30)
    assert ns("all_gather", (1, 4), GB, ranged()) == pytest.approx(1400 + 7_500_000)
    # 1200 ns more are made up for by 0.03 - 0.0075 ns a byte
    meeting = 1200 / 0.0225
    for payload, per_byte in ((meeting * 0.99, 0.03), (meeting * 1.01, 0.0075)):
        step = ns("all_gather", (1, 4), payload + 1, ranged())
        assert step - ns("all_gather", (1, 4), payload, ranged()) == pytest.approx(per_byte)


def test_a_kind_that_curves_know_by_itself_has_factors_of_its_own():
    # 1400 ns and 0.0075 ns a byte as its protocols say: twice and three times that
    links = replace(ranged(), by_kind=(("all_gather", 2.0, 3.0),))
    assert ns("all_gather", (1, 4), GB, links) == pytest.approx(2 * 1400 + 3 * 7_500_000)
    assert ns("reduce_scatter", (1, 4), GB, links) == ns("reduce_scatter", (1, 4), GB, ranged())


def test_arrays_of_payloads_take_the_fastest_protocol_each():
    cost = collective_cost("all_reduce", (2, 4), ranged())
    payloads = np.array([0.0, 1e3, 1e5, 1e7, 1e9])
    assert cost.ns(payloads).tolist() == [cost.ns(float(own)) for own in payloads]


def test_a_switch_that_adds_up_takes_every_byte_once():
    # 4 GB at 80 of 100 GB/s = 50 ms; a ring sends 3/4 of it twice, 60 ms
    start = 1000 + 2 * 2 * 200
    assert ns("all_reduce", (1, 4), 4 * GB, ranged(0.8)) == pytest.approx(50_000_000 + start)
    assert ns("all_reduce", (1, 4), 4 * GB, ranged()) == pytest.approx(60_000_000 + start)
    assert ns("all_gather", (1, 4), 4 * GB, ranged(0.8)) == ns(
        "all_gather", (1, 4), 4 * GB, ranged()
    )
    assert ns("all_reduce", (2, 4), 4 * GB, ranged(0.8)) == ns(
        "all_reduce", (2, 4), 4 * GB, ranged()
    )


@given(
    st.sampled_from(COLLECTIVES), st.sampled_from([(1, 2), (2, 1), (1, 4), (2, 4)]),
    st.floats(0, 1e10), st.floats(0, 1e10),
)  # fmt: skip
def test_one_message_never_takes_longer_than_two_and_more_bytes_never_less(
    kind, extents, one, other
):
    links = ranged(0.8)
    together = ns(kind, extents, one + other, links)
    assert together <= (ns(kind, extents, one, links) + ns(kind, extents, other, links)) * (
        1 + 1e-9
    )
    assert together >= ns(kind, extents, one, links) * (1 - 1e-9)


def test_what_goes_from_node_to_node_starts_later_and_what_is_sent_directly_does_not():
    # 1000 and 10,000 more, one step of 2 * 1000; half of the bytes at 10 GB/s
    assert ns("all_gather", (2, 1), GB, ranged()) == pytest.approx(13_000 + 50_000_000)
    # and back: all nodes fill twice, but it is begun once
    assert ns("all_reduce", (2, 1), GB, ranged()) == pytest.approx(25_000 + 100_000_000)
    assert ns("all_to_all", (2, 1), GB, ranged()) == pytest.approx(3_000 + 50_000_000)
    assert ns("send", (2, 1), GB, ranged()) == pytest.approx(3_000 + 100_000_000)
