from __future__ import annotations

import numpy as np
import pytest

from bench.closed_form.traffic import Network
from meshwright_costmodel.collectives import Interconnect, collective_cost
from tests.bench.closed_form.runs_of_tests import PRIORS, a_run

ONE = np.ones(1)


def network(**changed: float) -> Network:
    return Network(a_run(**changed), PRIORS)


def test_a_gather_in_a_node_goes_round_a_ring():
    # 8 ranks take in 7 of 8 GB over 0.78 * 300 GB/s; 7 steps of 5 us, 15 us to begin
    seconds = network().gather(8 * ONE, ONE, 8e9 * ONE)
    assert seconds == pytest.approx(7e9 / (0.78 * 3e11) + 7 * 5e-6 + 1.5e-5)


def test_a_group_across_nodes_has_a_port_for_each_member_in_a_node():
    # 16 ranks in 2 nodes: half of 8 GB through 8 ports of 0.8 * 25 GB/s is less than 7/8 inside
    seconds = network(inside_bytes_per_s=1e13).gather(16 * ONE, ONE, 8e9 * ONE)
    steps = 14 * 5e-6 + 2 * 1.4e-5 + 1.5e-5
    assert seconds == pytest.approx(4e9 / (8 * 0.8 * 2.5e10) + steps)


def test_ranks_a_node_apart_have_one_port_each():
    seconds = network().gather(2 * ONE, 8 * ONE, 8e9 * ONE)
    assert seconds == pytest.approx(4e9 / (0.8 * 2.5e10) + 2 * 1.4e-5 + 1.5e-5)


def test_a_reduction_among_many_takes_a_tree():
    # 1,024 ranks in 128 nodes: 2 * 3 steps inside and 2 * 7 between, not 1,024 round a ring
    small = network().reduce(1024 * ONE, ONE, ONE)
    assert small == pytest.approx(2 * (6 * 5e-6 + 14 * 1.4e-5 + 1.5e-5), rel=1e-4)
    assert network().gather(1024 * ONE, ONE, ONE) > 20 * small / 2


def test_one_rank_sends_nothing():
    alone = network()
    assert alone.gather(ONE, ONE, 1e9 * ONE) == 0
    assert alone.reduce(ONE, ONE, 1e9 * ONE) == 0
    assert alone.exchange(ONE, 1e9 * ONE, 1e9 * ONE) == 0


@pytest.mark.parametrize(("nodes", "members"), [(1, 4), (2, 8), (4, 2), (16, 1)])
def test_bandwidths_are_those_of_the_planner_s_collectives(nodes: int, members: int):
    own = network(per_node=members)
    links = Interconnect(
        levels=("node", "gpu"),
        sizes=(nodes, members),
        device_bytes_per_s=(float(own.between[0]), float(own.inside[0])),
        latency_ns=(0, 0),
        full_mesh=(False, False),
    )
    by_planner = collective_cost("all_gather", (nodes, members), links).ns(1e15) / 1e9
    ranks = float(nodes * members) * ONE
    assert own.gather(ranks, ONE, 1e15 * ONE) == pytest.approx(by_planner, rel=1e-3)
