"""Redistribution: hand-worked prices, laws of shortest paths, and paths run on real arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.collectives import Interconnect, collective_cost
from solver.redistribution import Move, Redistributions
from solver.states import PARTIAL, REPLICATED, VARIED, StateSpace
from tests.solver.devices import HELD, Cluster, Lay
from tests.solver.devices import PARTIAL as PART

# one level: 1 byte/ns, 100 ns a step; a group of 4 takes 2 steps
FLAT = Interconnect(("gpu",), (4,), (1e9,), (100,), (False,))
# two levels: nodes at 1 byte/ns and 1000 ns, devices within at 10 bytes/ns and 100 ns
NESTED = Interconnect(("node", "gpu"), (4, 8), (1e9, 1e10), (1000, 100), (False, False))


def flat(bytes_: int, *, has_gradient: bool = True, slots: tuple[int, ...] = (8, 8)):
    space = StateSpace(slots, (4,), bytes_, has_gradient)
    return Redistributions(space, (0,), FLAT)


def at(moves: Redistributions, *codes: int) -> int:
    (found,) = moves.space.index(np.array([codes]))
    assert found >= 0
    return int(found)


def cost(moves: Redistributions, source: tuple[int, ...], target: tuple[int, ...]) -> float:
    return float(moves.total_ns[at(moves, *source), at(moves, *target)])


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
        (V, P, 0, 0),  # V -> S -> P: slice, zeros elsewhere; the other way round backward
        (S0, P, 0, 0),  # zeros elsewhere; slice
    ],
)
def test_a_move_costs_what_its_collectives_cost(source, target, forward_ns, total_ns):
    moves = flat(4000)
    assert cost(moves, (source,), (target,)) == pytest.approx(total_ns)
    forward = moves.forward_ns[at(moves, source), at(moves, target)]
    assert forward == pytest.approx(forward_ns)


def test_a_partial_gradient_cannot_become_a_replicated_one_by_leaving_the_value_alone():
    # V -> R has no move of its own: the way round by V -> S -> R gathers the value again
    moves = flat(4000)
    assert [m.forward for m in moves.path(at(moves, V), at(moves, R))] == ["slice", "all_gather"]
    whole = flat(4000, slots=())
    assert [len(whole.space.states), whole.space.slots] == [3, 0]
    assert np.isinf(whole.total_ns[2, 0])  # nothing to slice: V stays V
    assert np.isinf(whole.total_ns[2, 1])


def test_without_a_gradient_only_the_forward_half_is_paid_and_v_is_no_state():
    moves = flat(4000, has_gradient=False)
    assert len(moves.space.states) == 4
    assert cost(moves, (S0,), (R,)) == pytest.approx(3200)
    assert cost(moves, (R,), (S0,)) == 0
    assert cost(moves, (P,), (S0,)) == pytest.approx(3200)
    assert all(m.backward == "none" for m in moves.path(at(moves, P), at(moves, S0)))


def nested(bytes_: int, *, slots: tuple[int, ...] = (32,), has_gradient: bool = True):
    return Redistributions(StateSpace(slots, (4, 8), bytes_, has_gradient), (0, 1), NESTED)


def test_axes_that_move_alike_share_one_collective():
    moves = nested(32_000)
    (move,) = moves.path(at(moves, 0, 0), at(moves, 1, 1))
    assert (move.forward, move.axes) == ("all_gather", (0, 1))
    # over 4 nodes, 8 members each: 32000 * 3/4 / 8 bytes at 1 byte/ns = 3000 ns;
    # within: 32000 * 7/8 at 10 bytes/ns = 2800 ns; steps 2 * 1000 + 3 * 100
    assert move.forward_ns == pytest.approx(3000 + 2300)
    assert (move.reorder_before, move.reorder_after) == (None, None)


def test_the_fastest_axis_of_a_slot_is_gathered_without_changing_places():
    # (node, gpu) on one slot, slowest first: gathering gpu joins neighbours
    moves = nested(32_000, has_gradient=False)
    (move,) = moves.path(at(moves, 0, 0), at(moves, 0, 1))
    assert (move.forward, move.axes, move.reorder_before) == ("all_gather", (1,), None)
    # 8000 bytes are gathered: 7000 at 10 bytes/ns + 3 steps
    assert cost(moves, (0, 0), (0, 1)) == pytest.approx(700 + 300)


def test_gathering_a_slower_axis_under_a_faster_one_changes_places_first():
    # device (i, j) of 4 x 8 holds part 8 i + j of 32; it wants parts 4 j .. 4 j + 3: a permutation
    # to part 4 j + i (1000 bytes at 1 byte/ns + 100 ns), then a gather of 4000 bytes over the four
    # (3000 + 2 * 100); gathering all 32000 and slicing would take 31000 + 5 * 100
    moves = Redistributions(StateSpace((32,), (4, 8), 32_000, False), (0, 0), FLAT)
    (move,) = moves.path(at(moves, 0, 0), at(moves, 1, 0))
    assert move.reorder_before is not None
    assert move.reorder_before.axes == (0, 1)
    assert move.reorder_before.payload_bytes == 1000
    assert move.reorder_before.ns == pytest.approx(1100)
    assert cost(moves, (0, 0), (1, 0)) == pytest.approx(1100 + 3200)


def test_axes_on_slots_of_their_own_never_change_places():
    moves = nested(32_000, slots=(32, 32))
    for source in range(len(moves.space.states)):
        for target in range(len(moves.space.states)):
            if np.isinf(moves.total_ns[source, target]):
                continue
            for move in moves.path(source, target):
                for state in (move.before, move.after):
                    codes = moves.space.states[state]
                    if codes[0] != codes[1]:
                        assert move.reorder_before is None or state != move.before
                        assert move.reorder_after is None or state != move.after


# --- laws ----------------------------------------------------------------------------------------


@st.composite
def situations(draw: st.DrawFn) -> Redistributions:
    """A value of up to three slots on a mesh of up to three axes in up to two levels."""
    axes = draw(st.lists(st.sampled_from([2, 2, 3, 4]), min_size=1, max_size=3))
    # every axis in a level of its own order: slowest first
    levels = sorted(draw(st.lists(st.integers(0, 1), min_size=len(axes), max_size=len(axes))))
    slots = tuple(draw(st.lists(st.sampled_from([1, 4, 6, 12, 24]), min_size=0, max_size=3)))
    elements = int(np.prod(slots, dtype=int))
    space = StateSpace(slots, tuple(axes), 4 * elements, draw(st.booleans()))
    slow = draw(st.sampled_from([1e8, 1e9, 1e10]))
    latency = draw(st.sampled_from([0, 10, 1000]))
    links = Interconnect(("node", "gpu"), (64, 64), (slow, 1e10), (latency, 10), (False, False))
    return Redistributions(space, tuple(levels), links)


@settings(max_examples=60, deadline=None)
@given(situations())
def test_no_detour_is_cheaper_and_staying_is_free(moves):
    total = moves.total_ns
    assert (np.diag(total) == 0).all()
    for via in range(len(total)):
        assert (total <= (total[:, via, None] + total[None, via, :]) * (1 + 1e-9) + 1e-6).all()


@settings(max_examples=60, deadline=None)
@given(situations())
def test_nothing_is_dearer_than_gathering_all_and_slicing(moves):
    n = moves.space.slots
    whole = at(moves, *[n + REPLICATED] * len(moves.space.axis_sizes))
    total = moves.total_ns
    assert (total <= (total[:, whole, None] + total[None, whole, :]) * (1 + 1e-9) + 1e-6).all()


@settings(max_examples=60, deadline=None)
@given(situations())
def test_every_state_without_a_partial_gradient_reaches_every_other(moves):
    states, n = moves.space.states, moves.space.slots
    plain = ~(states == n + VARIED).any(axis=1)
    assert np.isfinite(moves.total_ns[plain]).all()
    assert (moves.forward_ns >= 0).all()
    finite = np.isfinite(moves.total_ns)
    assert (moves.forward_ns[finite] <= moves.total_ns[finite] * (1 + 1e-9) + 1e-6).all()


@settings(max_examples=60, deadline=None)
@given(situations(), st.randoms(use_true_random=False))
def test_the_steps_of_a_path_add_up_to_its_price(moves, random):
    count = len(moves.space.states)
    for _ in range(20):
        source, target = random.randrange(count), random.randrange(count)
        if not np.isfinite(moves.total_ns[source, target]):
            continue
        path = moves.path(source, target)
        swaps = sum(r.ns for m in path for r in (m.reorder_before, m.reorder_after) if r)
        forward = sum(m.forward_ns for m in path) + swaps
        both = forward + sum(m.backward_ns for m in path)
        both += swaps if moves.space.has_gradient else 0.0
        assert forward == pytest.approx(moves.forward_ns[source, target])
        assert both == pytest.approx(moves.total_ns[source, target])
        for move in path:
            cluster = cluster_of(moves)
            sizes = [cluster.local_size(value_lay(moves, s)) for s in (move.before, move.after)]
            assert move.payload_bytes == 4 * max(sizes)
            if move.forward in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all"):
                price = collective_cost(move.forward, moves.extents(move.axes), moves.interconnect)
                assert move.forward_ns == pytest.approx(price.ns(move.payload_bytes))


# --- executed ------------------------------------------------------------------------------------


def cluster_of(moves: Redistributions) -> Cluster:
    return Cluster(moves.space.axis_sizes, moves.space.slot_sizes)


def value_lay(moves: Redistributions, state: int, last: tuple[int, ...] = ()) -> Lay:
    return _lay(moves, state, VARIED, PARTIAL, last)


def gradient_lay(moves: Redistributions, state: int, last: tuple[int, ...] = ()) -> Lay:
    return _lay(moves, state, PARTIAL, VARIED, last)


def _lay(moves: Redistributions, state: int, held: int, partial: int, last: tuple[int, ...]) -> Lay:
    n = moves.space.slots
    meaning = {n + REPLICATED: HELD, n + held: HELD, n + partial: PART}
    codes = moves.space.states[state].tolist()
    return Lay(tuple(meaning.get(code, code) for code in codes), last)


def run(moves: Redistributions, path: tuple[Move, ...], whole, random, *, backward: bool):
    """Run one half of a path on all devices; the arrays and the layout at its end are checked."""
    cluster = cluster_of(moves)
    lay = gradient_lay if backward else value_lay
    start = path[-1].after if backward else path[0].before
    held = cluster.place(whole, lay(moves, start), random)
    for move in reversed(path) if backward else path:
        ends = [(move.before, move.reorder_before), (move.after, move.reorder_after)]
        (source, first), (target, second) = ends[::-1] if backward else ends
        kind = move.backward if backward else move.forward
        steps = []
        if kind != "none":
            apart = lay(moves, source, move.axes), lay(moves, target, move.axes)
            if first is not None:
                steps.append(("permute", first.axes, lay(moves, source), apart[0]))
            steps.append((kind, move.axes, apart[0] if first else lay(moves, source),
                          apart[1] if second else lay(moves, target)))  # fmt: skip
            if second is not None:
                steps.append(("permute", second.axes, apart[1], lay(moves, target)))
        for what, axes, before, after in steps:
            held = cluster.step(what, axes, held, before, after)
        cluster.check(held, whole, lay(moves, target))


@settings(max_examples=100, deadline=None)
@given(situations(), st.randoms(use_true_random=False))
def test_paths_carry_values_and_gradients_from_layout_to_layout_on_real_arrays(moves, random):
    # 100 situations x 15 pairs x two halves
    numbers = np.random.default_rng(random.randrange(2**32))
    whole = numbers.integers(-99, 99, moves.space.slot_sizes) * 1.0
    gradient = numbers.integers(-99, 99, moves.space.slot_sizes) * 1.0
    count = len(moves.space.states)
    for _ in range(15):
        source, target = random.randrange(count), random.randrange(count)
        if source == target or not np.isfinite(moves.total_ns[source, target]):
            continue
        path = moves.path(source, target)
        run(moves, path, whole, numbers, backward=False)
        if moves.space.has_gradient:
            run(moves, path, gradient, numbers, backward=True)
