"""The load of the busiest device: known numbers, random routing, and laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright_costmodel.collectives import Interconnect
from meshwright_costmodel.expert_imbalance import ExpertLoad, group_load, largest_of
from meshwright_solver.layouts.redistribution import Redistributions
from meshwright_solver.layouts.states import REPLICATED, StateSpace

# one level: 1 byte/ns, 100 ns a step; a group of 4 takes 2 steps
FLAT = Interconnect(("gpu",), (4,), (1e9,), (100,), (False,))


@pytest.mark.parametrize(
    # published: Harter 1961, expected values of normal order statistics, table 1
    ("count", "mean"),
    [(1, 0.0), (2, 0.56419), (3, 0.84628), (4, 1.02938), (8, 1.42360), (64, 2.34373)],
)
def test_the_mean_of_the_largest_is_the_published(count: int, mean: float) -> None:
    assert largest_of(count) == pytest.approx(mean, abs=1e-5)


def test_by_hand() -> None:
    # 8 experts, the busiest 1.5 times the mean; 4 devices have 2 each:
    # 1 + 0.5 * 1.02938 / (1.42360 * sqrt 2) = 1.25565
    assert group_load(1.5, 8, 1) == 1
    assert group_load(1.5, 8, 4) == pytest.approx(1.25565, abs=1e-5)
    assert group_load(1.5, 8, 8) == pytest.approx(1.5)
    # 8 experts have at most all tokens; 9 chunks of them are no more than 8
    assert group_load(100, 8, 8) == group_load(100, 8, 9) == pytest.approx(8)


@given(st.integers(1, 6), st.floats(1, 64), st.floats(1, 64), st.integers(0, 6), st.integers(0, 6))
def test_more_imbalance_and_more_ways_are_never_less_load(
    log_experts: int, f: float, g: float, a: int, b: int
) -> None:
    experts = 2**log_experts
    few, many = (2 ** min(own, log_experts) for own in sorted((a, b)))
    assert 1 <= group_load(f, experts, few) <= group_load(f, experts, many) + 1e-12
    assert group_load(min(f, g), experts, few) <= group_load(max(f, g), experts, few) + 1e-12
    assert group_load(f, experts, many) <= min(max(f, 1), many) + 1e-9


@pytest.mark.parametrize("experts", [8, 64, 128])
@pytest.mark.parametrize("spread", [0.1, 0.3])
def test_random_routing_is_as_uneven_over_devices(experts: int, spread: float) -> None:
    """Tokens go to experts of random popularity, to the busiest 1.1 to 2.1 times the mean."""
    random = np.random.default_rng(experts)
    wanted = np.exp(spread * random.standard_normal((200, experts)))
    wanted /= wanted.sum(axis=1, keepdims=True)
    tokens = np.array([random.multinomial(65536, own) for own in wanted])

    def busiest(groups: int) -> float:
        own = tokens.reshape(len(tokens), groups, -1).sum(axis=2)
        return float((own.max(axis=1) / own.mean(axis=1)).mean())

    imbalance = busiest(experts)
    for groups in (2, 4, 8):
        load = group_load(imbalance, experts, groups)
        assert load == pytest.approx(busiest(groups), rel=0.05)


def test_an_all_to_all_waits_for_whoever_gets_or_sends_most() -> None:
    """4000 bytes of 8 experts over 4 devices, of which the busiest has 1.25565 times the mean."""
    load = ExpertLoad((0,), 8, 1.5)
    space = StateSpace((8, 8), (4,), 4000, has_gradient=False, load=load)
    moves = Redistributions(space, (0,), FLAT)
    on_experts, on_rows, whole = (
        int(space.index(np.array([[code]]))[0]) for code in (0, 1, 2 + REPLICATED)
    )
    busiest = 1000 * group_load(1.5, 8, 4)
    assert space.local_bytes(space.states[[on_experts, on_rows]]) == pytest.approx([busiest, 1000])
    # a device keeps a quarter; two steps of 100 ns
    for pair in ((on_rows, on_experts), (on_experts, on_rows)):
        (move,) = moves.forward_path(*pair)
        assert move.kind == "all_to_all"
        assert move.payload_bytes == pytest.approx(busiest)
        assert move.ns == pytest.approx(200 + 0.75 * busiest)
        assert moves.forward_ns(*map(np.array, pair)) == pytest.approx(move.ns)
    # what is gathered is all there is, however uneven its parts
    (gather,) = moves.forward_path(on_experts, whole)
    assert gather.ns == pytest.approx(200 + 0.75 * 4000)


def test_inner_axes_go_on_from_what_outer_axes_left() -> None:
    load = ExpertLoad((0,), 16, 1.8)
    inner = ExpertLoad((0,), 16, 1.8, outer=4)
    both = load.of_ways(np.array([8]))
    assert load.of_ways(np.array([4])) * inner.of_ways(np.array([2])) == pytest.approx(both)
