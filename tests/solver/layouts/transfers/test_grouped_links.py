"""Transfers in mixed clusters: by hand, and where kinds are equal as in a cluster of one kind."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schema import Axis, Layout, LayoutPair, Mesh, MeshAxis
from meshwright.transfers.holding import PlacedMesh
from meshwright_costmodel.calibrations import default_calibration
from meshwright_costmodel.presets import preset
from meshwright_solver.layouts.transfers.grouped_links import wiring_of
from meshwright_solver.layouts.transfers.links import Loads, Wiring
from meshwright_solver.layouts.transfers.transfer import between_stages
from tests.solver.layouts.transfers.small import layout

CALIBRATION = default_calibration()
EFFICIENCY = CALIBRATION.link_efficiency
# 8 devices in 2 nodes with 25 GB/s each between nodes, then 4 in one node with 50 GB/s
MIXED = wiring_of(preset("a100-2x4+h100-1x4"), CALIBRATION)
NS = 14_000  # of a step over either network


def busiest(wiring: Wiring, *sends: tuple[int, int, int]):
    made = Loads(wiring)
    made.add(*np.array(sends, dtype=np.int64).T, wave=0)
    return made.busiest()


def test_the_slower_port_decides_between_groups() -> None:
    assert MIXED.device_count == 12
    ns, where = busiest(MIXED, (7, 8, 10**6))
    assert ns == pytest.approx(NS + 1e6 / (25e9 * EFFICIENCY) * 1e9)
    assert where is not None
    assert (where.level, where.device, where.direction) == ("group", 7, "out")
    # one fast port takes what two slow ones send
    assert busiest(MIXED, (6, 8, 10**6), (7, 8, 10**6))[0] == pytest.approx(ns)
    three, where = busiest(MIXED, *((source, 8, 10**6) for source in (5, 6, 7)))
    assert three == pytest.approx(NS + 3e6 / (50e9 * EFFICIENCY) * 1e9)
    assert where is not None
    assert (where.device, where.direction, where.bytes) == (8, "in", 3 * 10**6)


@pytest.mark.parametrize(("part", "first"), [("a100-2x4", 0), ("h100-1x4", 8)])
def test_inside_a_group_all_is_as_in_the_group_alone(part: str, first: int) -> None:
    alone = wiring_of(preset(part), CALIBRATION)
    generator = np.random.default_rng(0)
    for _ in range(20):
        source = generator.integers(0, alone.device_count, 6)
        target = (source + generator.integers(1, alone.device_count, 6)) % alone.device_count
        sends = list(zip(source, target, generator.integers(1, 10**7, 6), strict=True))
        moved = [(one + first, other + first, size) for one, other, size in sends]
        expected, there = busiest(alone, *sends)
        ns, where = busiest(MIXED, *moved)
        assert ns == pytest.approx(expected)
        assert where is not None
        assert there is not None
        assert (where.level, where.device) == (there.level, there.device + first)


def mesh(nodes: int, devices: int) -> Mesh:
    return Mesh(
        axes=(
            MeshAxis(name=Axis("n"), size=nodes, level="node"),
            MeshAxis(name=Axis("g"), size=devices, level="gpu"),
        )
    )


LAYOUTS = (
    layout((16, ""), (8, "")),
    layout((16, "n"), (8, "")),
    layout((16, "g"), (8, "n")),
    layout((16, "ng"), (8, "")),
    layout((16, ""), (8, "g"), partial={"n": "sum"}),
)


@pytest.mark.parametrize("before", LAYOUTS)
@pytest.mark.parametrize("after", LAYOUTS[:-1])
def test_equal_groups_send_as_parts_of_one_cluster_do(before: Layout, after: Layout) -> None:
    """2 nodes of 4 to 2 nodes of 4, over the network that nodes of one cluster have."""
    times = []
    for name in ("h100-4x4", "h100-2x4+h100-2x4"):
        wiring = wiring_of(preset(name), CALIBRATION)
        here, there = (PlacedMesh(mesh(2, 4), np.arange(first, first + 8)) for first in (0, 8))
        forward, _ = between_stages(
            "x",
            (LayoutPair(value=before, gradient=None), here),
            (LayoutPair(value=after, gradient=None), there),
            wiring,
            value_bytes=4 * 10**6,
            gradient_bytes=4,
        )
        times.append((forward.ns, forward.moved_bytes, forward.sends))
    assert times[0] == pytest.approx(times[1])
