"""Redistribution: hand-worked prices, laws of shortest paths, and who stands for whom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright_costmodel.collectives import Interconnect
from meshwright_solver.layouts import shortest_paths
from meshwright_solver.layouts.redistribution import Redistributions
from meshwright_solver.layouts.states import PARTIAL, REPLICATED, VARIED, StateSpace
from tests.solver.redistribution_cases import situation

# one level: 1 byte/ns, 100 ns a step; a group of 4 takes 2 steps
FLAT = Interconnect(("gpu",), (4,), (1e9,), (100,), (False,))
# two levels: nodes at 1 byte/ns and 1000 ns, devices within at 10 bytes/ns and 100 ns
NESTED = Interconnect(("node", "gpu"), (4, 8), (1e9, 1e10), (1000, 100), (False, False))


def flat(bytes_: int, *, has_gradient: bool = True, slots: tuple[int, ...] = (8, 8)):
    space = StateSpace(slots, (4,), bytes_, has_gradient)
    return Redistributions(space, (0,), FLAT)


def on_axes(*sizes: int, bytes_: int, slots: tuple[int, ...], has_gradient: bool = False):
    """Axes in one level."""
    return Redistributions(StateSpace(slots, sizes, bytes_, has_gradient), (0,) * len(sizes), FLAT)


def at(moves: Redistributions, *codes: int) -> int:
    (found,) = moves.space.index(np.array([codes]))
    assert found >= 0
    return int(found)


def cost(moves: Redistributions, source: tuple[int, ...], target: tuple[int, ...]) -> float:
    pair = np.array([at(moves, *source)]), np.array([at(moves, *target)])
    return float(moves.total_ns(*pair)[0])


def steps(moves: Redistributions, source: tuple[int, ...], target: tuple[int, ...]):
    """Kinds and axes, forward and backward."""
    pair = at(moves, *source), at(moves, *target)
    return tuple(
        [(move.kind, move.axes) for move in path]
        for path in (moves.forward_path(*pair), moves.backward_path(*pair))
    )


S0, S1, R, P, V = 0, 1, 2 + REPLICATED, 2 + PARTIAL, 2 + VARIED


@pytest.mark.parametrize(
    ("source", "target", "forward_ns", "total_ns"),
    [
        # 4000 bytes over 4 devices at 1 byte/ns: a gather or a reduce-scatter moves 3000 bytes in
        # 2 steps of 100 ns = 3200; an all-reduce is both = 6400; an all-to-all of the local 1000
        # bytes keeps a quarter = 750 + 200 = 950
        (S0, R, 3200, 3200),  # all-gather; the gradient is sliced
        (S0, V, 3200, 6400),  # all-gather; reduce-scatter
        (S0, S1, 950, 1900),  # all-to-all both ways
        (P, S0, 3200, 6400),  # reduce-scatter; all-gather
        (P, R, 6400, 6400),  # all-reduce; nothing
        (P, V, 6400, 12800),  # all-reduce; all-reduce
        (R, S0, 0, 3200),  # slice; all-gather
        (R, V, 0, 6400),  # nothing; all-reduce
        (R, P, 0, 0),  # mask; nothing
        (V, S0, 0, 0),  # slice; zeros elsewhere
        (V, P, 0, 0),  # zeros elsewhere, both ways
        (V, R, 0, 0),  # nothing; the gradient, whole on all, counts on the first device only
        (S0, P, 0, 0),  # zeros elsewhere; slice
    ],
)
def test_a_move_costs_what_its_collectives_cost(source, target, forward_ns, total_ns):
    moves = flat(4000)
    assert cost(moves, (source,), (target,)) == pytest.approx(total_ns)
    pair = np.array([at(moves, source)]), np.array([at(moves, target)])
    assert moves.forward_ns(*pair)[0] == pytest.approx(forward_ns)


def test_without_a_gradient_only_the_forward_half_is_paid_and_v_is_no_state():
    moves = flat(4000, has_gradient=False)
    assert len(moves.space.states) == 4
    assert cost(moves, (S0,), (R,)) == pytest.approx(3200)
    assert cost(moves, (R,), (S0,)) == 0
    assert cost(moves, (P,), (S0,)) == pytest.approx(3200)
    assert steps(moves, (P,), (S0,)) == ([("reduce_scatter", (0,))], [])


def nested(bytes_: int, *, slots: tuple[int, ...] = (32,), has_gradient: bool = True):
    return Redistributions(StateSpace(slots, (4, 8), bytes_, has_gradient), (0, 1), NESTED)


def test_axes_that_move_alike_share_one_collective():
    moves = nested(32_000)
    (move,) = moves.forward_path(at(moves, 0, 0), at(moves, 1, 1))
    assert (move.kind, move.axes) == ("all_gather", (0, 1))
    # over 4 nodes, 8 members each: 32000 * 3/4 / 8 bytes at 1 byte/ns = 3000 ns;
    # within: 32000 * 7/8 at 10 bytes/ns = 2800 ns; steps 2 * 1000 + 3 * 100
    assert move.ns == pytest.approx(3000 + 2300)


def test_axes_that_differ_backward_alone_share_the_collective_forward():
    # S to R on one axis, S to V on the other: the value is gathered over both at once; of the
    # gradient each device needs a part only, so it is cut before it is added up
    moves = nested(32_000, slots=(32, 32))
    forward, backward = steps(moves, (0, 1), (2 + REPLICATED, 2 + VARIED))
    assert forward == [("all_gather", (0, 1))]
    assert backward == [("slice", (0,)), ("reduce_scatter", (1,))]


def test_the_fastest_axis_of_a_slot_is_gathered_without_changing_places():
    # (node, gpu) on one slot, slowest first: gathering gpu joins neighbours
    moves = nested(32_000, has_gradient=False)
    assert steps(moves, (0, 0), (0, 1))[0] == [("all_gather", (1,))]
    # 8000 bytes are gathered: 7000 at 10 bytes/ns + 3 steps
    assert cost(moves, (0, 0), (0, 1)) == pytest.approx(700 + 300)


def test_gathering_a_slower_axis_under_a_faster_one_changes_places_first():
    # device (i, j) of 4 x 8 holds part 8 i + j of 32; it wants parts 4 j .. 4 j + 3: a permutation
    # to part 4 j + i (1000 bytes at 1 byte/ns + 100 ns), then a gather of 4000 bytes over the four
    # (3000 + 2 * 100); gathering all 32000 and slicing would take 31000 + 5 * 100
    moves = on_axes(4, 8, bytes_=32_000, slots=(32,))
    found = moves.forward_path(at(moves, 0, 0), at(moves, 1, 0))
    assert [(m.kind, m.axes, m.payload_bytes) for m in found] == [
        ("permute", (0, 1), 1000),
        ("all_gather", (0,), 4000),
    ]
    assert cost(moves, (0, 0), (1, 0)) == pytest.approx(1100 + 3200)


def test_two_axes_that_leave_one_slot_change_places_once():
    # a, b, c on slot 0; a and b are gathered, c stays: c goes to the front of all once
    moves = on_axes(2, 2, 2, bytes_=8000, slots=(8,))
    assert steps(moves, (0, 0, 0), (1, 1, 0))[0] == [
        ("permute", (0, 1, 2)),
        ("all_gather", (0, 1)),
    ]


def test_axes_of_one_size_swap_their_slots_by_one_message_of_every_device():
    # device (i, j) has part (i, j) and wants (j, i): its 250 bytes go to device (j, i), 100 + 250
    moves = on_axes(4, 4, bytes_=4000, slots=(4, 4))
    assert steps(moves, (0, 1), (1, 0))[0] == [("permute", (0, 1))]
    assert cost(moves, (0, 1), (1, 0)) == pytest.approx(350)
    # parts of 1000 bytes go from the devices along one axis to those along the other
    assert steps(moves, (0, 2), (2, 0))[0] == [("permute", (0, 1))]
    assert cost(moves, (0, 2), (2, 0)) == pytest.approx(1100)


def test_an_axis_as_long_as_two_others_takes_their_place_by_one_message():
    moves = on_axes(2, 3, 6, bytes_=6000, slots=(6,))
    assert steps(moves, (0, 0, 1), (1, 1, 0))[0] == [("permute", (0, 1, 2))]
    assert cost(moves, (0, 0, 1), (1, 1, 0)) == pytest.approx(1100)


def test_axes_of_two_sizes_swap_their_slots_by_an_exchange_of_unequal_shares():
    # 2 x 4 devices with 500 bytes each: all are taken to leave, in 1 + 2 steps; group of 8: 3
    moves = on_axes(2, 4, bytes_=4000, slots=(4, 4))
    assert steps(moves, (0, 1), (1, 0))[0] == [("all_to_all", (0, 1))]
    assert cost(moves, (0, 1), (1, 0)) == pytest.approx(3 * 100 + 500)


def test_local_steps_of_one_kind_are_one_step():
    moves = on_axes(2, 2, 2, bytes_=8000, slots=(8, 8))
    assert steps(moves, (2, 2, 2), (0, 0, 1))[0] == [("slice", (0, 1, 2))]
    assert steps(moves, (2, 2, 2), (3, 3, 2))[0] == [("mask", (0, 1))]


def test_axes_that_cut_a_slot_together_or_not_at_all_also_leave_and_come_together():
    # the user's own four chunks, which no axis of two can cut alone
    space = StateSpace((12, 4), (2, 2), 480, False, spans=(12, 4), counts=(4, 0))
    moves = Redistributions(space, (0, 0), FLAT)
    assert space.index(np.array([[0, 2]])) == [-1]
    assert steps(moves, (2, 2), (0, 0))[0] == [("slice", (0, 1))]
    assert steps(moves, (0, 0), (3, 3))[0] == [("mask", (0, 1))]
    assert steps(moves, (3, 3), (0, 0))[0] == [("reduce_scatter", (0, 1))]
    assert steps(moves, (0, 0), (1, 1))[0] == [("all_to_all", (0, 1))]
    assert np.isfinite(all_total_ns(moves)).all()


# --- laws ----------------------------------------------------------------------------------------


@pytest.fixture(params=range(13))
def moves(request: pytest.FixtureRequest) -> Redistributions:
    """Random values on random meshes of one to three axes, and one with uneven chunks."""
    if request.param == 12:
        space = StateSpace((7, 8, 7, 16), (2, 2, 2), 4 * 7 * 8 * 7 * 16, True, spans=(8, 8, 8, 16))
        return Redistributions(space, (0, 1, 1), NESTED)
    random = np.random.default_rng([200, request.param])
    axes = 1 + request.param % 3
    return situation(random, axes, most_elements=10**4, devices=(2, 200))


def all_total_ns(moves: Redistributions):
    states = np.arange(len(moves.space.states))
    return moves.total_ns(states[:, None], states[None, :])


def test_no_detour_is_cheaper_and_staying_is_free(moves):
    total = all_total_ns(moves)
    assert (np.diag(total) == 0).all()
    for via in range(len(total)):
        assert (total <= (total[:, via, None] + total[None, via, :]) * (1 + 1e-9)).all()


def test_every_state_reaches_every_other_and_forward_is_a_part_of_the_whole(moves):
    states = np.arange(len(moves.space.states))
    total = all_total_ns(moves)
    forward = moves.forward_ns(states[:, None], states[None, :])
    assert np.isfinite(total).all()
    assert (forward >= 0).all()
    assert (forward <= total).all()


def test_pairs_cost_what_the_whole_table_says(moves):
    total = all_total_ns(moves)
    random = np.random.default_rng(0)
    rows, columns = random.integers(0, len(total), (2, 500))
    np.testing.assert_array_equal(moves.total_ns(rows, columns), total[rows, columns])


def test_one_source_of_each_family_of_layouts_gives_what_all_sources_give(moves):
    # against searches from every layout, without renaming slots
    graph, count = moves.graph, len(moves.layouts.states)
    plain = shortest_paths.distances(
        graph.start, graph.source, moves.edge_ns, graph.leaves, graph.arrives
    )
    values = replace(moves, space=moves.layouts)
    states = np.arange(count)
    folded = values.forward_ns(states[:, None], states[None, :])
    np.testing.assert_allclose(folded, plain, rtol=1e-12)


def test_where_order_is_free_what_was_put_down_last_still_leaves_first():
    # to every pair of states; a part that is cut, scattered over and gathered again by the first
    # axis alone would lie where no group holds it
    space = StateSpace((8,), (2, 2, 2), 1 << 16, False)
    moves = Redistributions(space, (0, 1, 1), NESTED, order_is_free=True)
    passing = 0
    for source, target in np.ndindex(len(space.states), len(space.states)):
        for move in moves.forward_path(source, target):
            for a in move.axes:
                slot = move.before.codes[a]
                if slot >= space.slots:
                    continue
                behind = [
                    b
                    for b, code in enumerate(move.before.codes)
                    if code == slot and move.before.ranks[b] > move.before.ranks[a]
                ]
                assert set(behind) <= set(move.axes)
                passing += space.states[source][a] >= space.slots
    assert passing > 0
    # repeated along the fast axis, partial along the slow one, wanted in parts along the slow one
    whole, partial = space.slots + REPLICATED, space.slots + PARTIAL
    way = steps(moves, (partial, whole, whole), (0, whole, whole))[0]
    assert way == [("mask", (1, 2)), ("reduce_scatter", (0, 1, 2)), ("all_gather", (1, 2))]


def test_slots_that_axes_cut_alike_are_searched_once():
    # 4 axes on 4 equal slots: what is left of 6^4 layouts is the sum over k axes on slots of
    # (4 choose k) 2^(4 - k) times the ways to put k axes in groups: 16 + 32 + 48 + 40 + 15
    moves = on_axes(2, 2, 2, 2, bytes_=16**4, slots=(16, 16, 16, 16))
    assert moves.distances.shape == (151, 6**4)
    # a slot that one axis alone can cut is like no other
    uneven = on_axes(2, 2, bytes_=16, slots=(4, 2, 4))
    assert len(uneven.distances) > len(on_axes(2, 2, bytes_=64, slots=(4, 4, 4)).distances)
