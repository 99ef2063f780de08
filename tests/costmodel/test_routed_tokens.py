"""All-to-alls that send one copy of a token to each node: against a count of random routings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright_costmodel.collectives import Interconnect, collective_ns, routed_share
from meshwright_costmodel.presets import preset
from tests.costmodel.test_collectives import PERFECT


def counted(
    nodes: int, devices: int, top_k: int, most: int, tokens: int = 20_000
) -> tuple[float, float]:
    """Copies of a token through the ports of a node's network and of its devices, over top_k."""
    random = np.random.default_rng(0)
    allowed = min(most, nodes) if most else nodes
    node_of = np.argsort(random.random((tokens, nodes)), axis=1)[:, :allowed]
    chosen = random.integers(0, allowed, (tokens, top_k))
    on_node = np.take_along_axis(node_of, chosen, axis=1)
    on_device = on_node * devices + random.integers(0, devices, (tokens, top_k))
    source = random.integers(0, nodes * devices, tokens)
    between = inside = 0
    for token in range(tokens):
        visited = set(on_node[token].tolist())
        between += len(visited - {source[token] // devices})
        # a copy arrives at one device of each node, and leaves it for the others
        arrived = {device: int(random.integers(0, devices)) for device in visited}
        inside += sum(
            device % devices != arrived[device // devices]
            for device in set(on_device[token].tolist())
        )
    return between / tokens / top_k, inside / tokens / top_k


@settings(max_examples=12, deadline=None)
@given(
    st.integers(2, 8), st.sampled_from([1, 4, 8]), st.sampled_from([1, 2, 6, 8]), st.integers(0, 4)
)
def test_shares_are_those_of_random_routings(
    nodes: int, devices: int, top_k: int, most: int
) -> None:
    between, inside = counted(nodes, devices, top_k, most)
    extents = (nodes, devices)
    assert routed_share(0, extents, top_k, most) == pytest.approx(between, rel=0.05)
    if devices > 1:
        assert routed_share(1, extents, top_k, most) == pytest.approx(inside, rel=0.05)


def test_one_copy_a_node_sends_less_over_the_network_and_nothing_else_changes() -> None:
    plain = Interconnect.of(preset("h100-8x8"), PERFECT)
    routed = replace(plain, top_k=8)
    limited = replace(plain, top_k=8, most_units=4)
    ns = [
        collective_ns("all_to_all", (8, 8), payload_bytes=1e9, interconnect=links)
        for links in (plain, routed, limited)
    ]
    # 7/8 of all, of 8 (1 - (7/8)^8) = 5.25 copies of 8, and of 4 (1 - (3/4)^8) = 3.6
    assert ns[0] == pytest.approx(7 / 8 / 50e9 * 1e18, rel=1e-2)
    assert ns[1] / ns[0] == pytest.approx(5.251 / 8, rel=1e-2)
    assert ns[2] / ns[0] == pytest.approx(3.600 / 8, rel=1e-2)
    gathers = [
        collective_ns("all_gather", (8, 8), payload_bytes=1e9, interconnect=links)
        for links in (plain, routed)
    ]
    assert gathers[0] == gathers[1]
