"""States of a value on a mesh, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright_solver.layouts.states import PARTIAL, REPLICATED, VARIED, StateSpace

R, P, V = REPLICATED, PARTIAL, VARIED


def test_one_slot_on_one_axis_has_the_four_states():
    space = StateSpace((8,), (4,), 32, True)
    assert space.states.tolist() == [[0], [1 + R], [1 + P], [1 + V]]
    assert space.local_bytes(space.states).tolist() == [8, 32, 32, 32]


def test_without_a_gradient_there_is_no_v():
    assert StateSpace((8,), (4,), 32, False).states.tolist() == [[0], [1 + R], [1 + P]]


def test_a_slot_takes_only_axes_whose_product_divides_it():
    # 6 over axes of 2, 3 and 4: {2}, {3}, {2, 3} fit; 4 never
    space = StateSpace((6,), (2, 3, 4), 24, False)
    on_slot = {tuple(a for a in range(3) if row[a] == 0) for row in space.states.tolist()}
    assert on_slot == {(), (0,), (1,), (0, 1)}


def test_a_slot_with_a_span_takes_axes_that_divide_the_span_and_counts_the_longest_chunk():
    # 7 rows of 4 bytes over the span 8: two chunks of 4, or four of 2; 3 divide neither
    space = StateSpace((7,), (2, 2, 3), 28, False, (8,))
    on_slot = {tuple(a for a in range(3) if row[a] == 0) for row in space.states.tolist()}
    assert on_slot == {(), (0,), (1,), (0, 1)}
    rows = np.array([[0, 1 + R, 1 + R], [0, 0, 1 + R], [1 + R, 1 + R, 1 + R]])
    assert space.local_bytes(rows).tolist() == pytest.approx([16, 8, 28])
    # gathered from chunks all of the span has travelled; what stays cut is counted in chunks
    assert space.filled(rows[[2, 0]], rows[[0, 1]]).tolist() == pytest.approx([8 / 7, 1])


def test_an_axis_of_one_device_carries_nothing():
    assert StateSpace((8,), (1, 2), 32, True).states[:, 0].tolist() == [1 + R] * 4


def test_a_scalar_can_only_be_whole_or_partial():
    space = StateSpace((), (2, 2), 4, True)
    assert len(space.states) == 9
    assert space.local_bytes(space.states).tolist() == [4] * 9


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.sampled_from([2, 3, 4, 8, 12]), max_size=3),
    st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3),
    st.booleans(),
)
def test_index_finds_every_state_and_nothing_else(slots, axes, has_gradient):
    space = StateSpace(tuple(slots), tuple(axes), 1 << 20, has_gradient)
    states = space.states
    assert space.index(states).tolist() == list(range(len(states)))
    grid = np.stack(np.meshgrid(*[np.arange(space.base)] * len(axes), indexing="ij"), -1)
    every = grid.reshape(-1, len(axes))
    assert space.valid(every).sum() == len(states)
    for row in states[:: max(1, len(states) // 20)].tolist():
        ways = np.prod([size for code, size in zip(row, axes, strict=True) if code < len(slots)])
        assert space.local_bytes(np.array([row]))[0] == space.bytes / ways
