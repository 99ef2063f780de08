"""Collectives on a torus against hand-worked cases and against the loads of all wires."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.schema import Device, Level, Link, Topology
from meshwright_costmodel.calibrations import datasheet_calibration
from meshwright_costmodel.collectives import Interconnect, collective_ns
from meshwright_costmodel.presets import preset
from tests.costmodel.test_collectives import PERFECT

GB = 10**9
KINDS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast")


def torus(*sizes: int, kind: str = "torus", latency_ns: int = 0) -> Interconnect:
    """A torus whose wires carry 1 GB/s in each direction."""
    link = Link(kind=kind, bytes_per_s=2 * GB, latency_ns=latency_ns)
    levels = tuple(
        Level(name=name, size=size, link=link) for name, size in zip("xyz", sizes, strict=False)
    )
    device = Device(name="any", memory_bytes=1, memory_bytes_per_s=1, flops_per_s={"float32": 1})
    return Interconnect.of(Topology(device=device, levels=levels), PERFECT)


def seconds(kind: str, extents: tuple[int, ...], payload: float, links: Interconnect) -> float:
    return collective_ns(kind, extents, payload_bytes=payload, interconnect=links) / 1e9


def test_a_ring_gathers_over_both_wires() -> None:
    # 3/4 of 8 GB over two wires of 1 GB/s
    assert seconds("all_gather", (4,), 8 * GB, torus(4)) == pytest.approx(3)
    assert seconds("all_reduce", (4,), 8 * GB, torus(4)) == pytest.approx(6)


def test_the_ends_of_a_line_have_one_wire() -> None:
    assert seconds("all_gather", (4,), 8 * GB, torus(4, kind="grid")) == pytest.approx(6)
    # half of a ring is a line
    assert seconds("all_gather", (4,), 8 * GB, torus(8)) == pytest.approx(6)


def test_dimensions_work_together() -> None:
    # 15/16 of 8 GB over four wires
    assert seconds("all_gather", (4, 4), 8 * GB, torus(4, 4)) == pytest.approx(7.5 / 4)
    # 63/64 over six
    assert seconds("all_gather", (4, 4, 4), 8 * GB, torus(4, 4, 4)) == pytest.approx(7.875 / 6)


def test_hops_are_steps() -> None:
    assert seconds("all_gather", (8,), 0, torus(8, latency_ns=1000)) == pytest.approx(4e-6)
    assert seconds("all_gather", (8,), 0, torus(8, kind="grid", latency_ns=1000)) == pytest.approx(
        7e-6
    )


def test_a_send_takes_one_wire() -> None:
    assert seconds("send", (4,), 8 * GB, torus(4)) == pytest.approx(8)


def test_slices_gather_through_the_ports_of_all_their_devices() -> None:
    links = Interconnect.of(preset("tpu-v5e-2x16x16"), datasheet_calibration())
    efficiency = datasheet_calibration().link_efficiency
    # half of the payload through 256 ports of 3.125 GB/s, less than the torus takes
    ports = 8 * GB / 2 / 256 / (3.125e9 * efficiency)
    ring = 8 * GB * 255 / 256 / (200e9 * efficiency)
    assert seconds("all_gather", (2, 16, 16), 8 * GB, links) == pytest.approx(
        max(ports, ring), rel=1e-2
    )


def test_a_topology_with_a_torus_has_no_protocols_of_a_switched_network() -> None:
    assert not Interconnect.of(preset("tpu-v5p-8x8x8"), datasheet_calibration()).protocols


@given(st.lists(st.integers(2, 5), min_size=1, max_size=3))
def test_an_all_to_all_takes_the_time_of_the_busiest_wire(sizes: list[int]) -> None:
    """Every device sends 1 GB / n to every device, by dimension and the shorter way around."""
    count = 1
    for size in sizes:
        count *= size
    load: Counter[tuple[int, ...]] = Counter()
    for start, end in itertools.product(
        itertools.product(*(range(size) for size in sizes)), repeat=2
    ):
        at = list(start)
        for dim, size in enumerate(sizes):
            ahead = (end[dim] - at[dim]) % size
            # halfway around, half of the message goes each way
            ways = [(1, ahead)] if 2 * ahead < size else [(-1, size - ahead)]
            if 2 * ahead == size:
                ways = [(1, ahead), (-1, ahead)]
            for step, hops in ways:
                place = list(at)
                for _ in range(hops):
                    load[(*place, dim, step)] += 2 // len(ways)
                    place[dim] = (place[dim] + step) % size
            at[dim] = end[dim]
    busiest = max(load.values()) / 2 / count
    links = torus(*sizes)
    ours = seconds("all_to_all", tuple(sizes), GB, links)
    # g / 4 counts pairs at a distance of g / 4 on the mean; of odd rings it is (g - 1 / g) / 4
    assert ours == pytest.approx(busiest, rel=0.13 if any(size % 2 for size in sizes) else 1e-9)
    assert ours >= busiest * (1 - 1e-9)


@pytest.mark.parametrize("kind", KINDS)
@given(sizes=st.lists(st.integers(2, 6), min_size=1, max_size=3), data=st.data())
def test_a_closed_dimension_is_never_slower_than_an_open_one(
    kind: str, sizes: list[int], data: st.DataObject
) -> None:
    parts = tuple(
        data.draw(st.sampled_from([part for part in range(1, size + 1) if size % part == 0]))
        for size in sizes
    )
    whole = tuple(size if part > 1 else 1 for part, size in zip(parts, sizes, strict=True))
    for each in (parts, whole):
        assert seconds(kind, each, GB, torus(*sizes)) <= seconds(
            kind, each, GB, torus(*sizes, kind="grid")
        )
