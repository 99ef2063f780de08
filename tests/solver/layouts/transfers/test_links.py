"""Times worked by hand: the busiest port or wire decides."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schema import Topology
from meshwright_costmodel.collectives import collective_ns
from meshwright_solver.layouts.transfers.links import Cluster, Loads
from tests.solver.layouts.transfers.random_moves import topology
from tests.solver.small_graphs import toy_calibration

EFFICIENCY = toy_calibration().link_efficiency


def cluster(topology: Topology) -> Cluster:
    return Cluster.of(topology, toy_calibration())


def loads(on: Cluster, *sends: tuple[int, int, int], wave: int = 0) -> Loads:
    """from, to, bytes."""
    made = Loads(on)
    source, target, size = np.array(sends, dtype=np.int64).T
    made.add(source, target, size, wave=wave)
    return made


@pytest.mark.parametrize(("target", "extents"), [(1, (1, 1, 2)), (5, (1, 2, 1)), (47, (2, 1, 1))])
def test_one_send_takes_what_the_cost_model_says(target: int, extents: tuple[int, ...]) -> None:
    on = cluster(topology((3, 4, 4)))
    expected = collective_ns("send", extents, payload_bytes=10**6, interconnect=on.links)
    assert loads(on, (0, target, 10**6)).busiest()[0] == pytest.approx(expected)


def test_both_directions_of_a_port_carry_at_once() -> None:
    on = cluster(topology((2, 4)))
    alone = loads(on, (0, 1, 10**6)).busiest()[0]
    assert loads(on, (0, 1, 10**6), (1, 0, 10**6)).busiest()[0] == alone
    both = loads(on, (0, 2, 10**6), (1, 2, 2 * 10**6))
    ns, where = both.busiest()
    # three million bytes into device 2 at 10 GB/s, and 1000 ns of latency
    assert ns == pytest.approx(1000 + 3e6 / (1e10 * EFFICIENCY) * 1e9)
    assert where is not None
    assert (where.level, where.device, where.direction, where.bytes) == ("l1", 2, "in", 3 * 10**6)


def test_levels_carry_at_once_and_the_slower_decides() -> None:
    on = cluster(topology((2, 4)))
    slow = loads(on, (0, 4, 10**6)).busiest()[0]
    assert loads(on, (0, 4, 10**6), (0, 1, 10**6)).busiest()[0] == slow


def test_neighbours_share_a_port() -> None:
    alone, shared = (cluster(topology((2, 4), devices_per_port=n)) for n in (1, 2))
    sends = ((0, 4, 10**6), (1, 5, 10**6))
    ns = [loads(on, *sends).busiest()[0] - 1000 for on in (alone, shared)]
    assert ns[1] == pytest.approx(2 * ns[0])
    apart = loads(shared, (0, 4, 10**6), (2, 6, 10**6)).busiest()[0] - 1000
    assert apart == pytest.approx(ns[0])


def test_a_full_mesh_has_a_wire_for_every_pair() -> None:
    on = cluster(topology((5,), kind="xgmi"))
    ns, where = loads(on, (0, 1, 10**6), (0, 2, 10**6), (3, 4, 1)).busiest()
    # each wire has a quarter of 1 GB/s
    assert ns == pytest.approx(1000 + 1e6 / (0.25e9 * EFFICIENCY) * 1e9)
    assert where is not None
    assert where.device == 0


def test_waves_follow_each_other() -> None:
    on = cluster(topology((2, 4)))
    both = loads(on, (0, 4, 10**6))
    first = both.busiest()[0]
    both.add(np.array([4]), np.array([5]), np.array([10**6]), wave=1)
    second = loads(on, (4, 5, 10**6)).busiest()[0]
    assert both.busiest()[0] == pytest.approx(first + second)
