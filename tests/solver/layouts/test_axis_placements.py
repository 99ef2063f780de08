"""Rows of codes whose axes divide what they cut, against all rows filtered one by one."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright_solver.layouts.axis_placements import placements


def by_hand(
    codes: list[int],
    idle: int,
    lies_on: tuple[tuple[int, ...], ...],
    lengths: list[int],
    axis_sizes: tuple[int, ...],
) -> list[list[int]]:
    found = []
    for row in product(*(codes if size > 1 else [idle] for size in axis_sizes)):
        ways = [1] * len(lengths)
        for code, size in zip(row, axis_sizes, strict=True):
            for length in lies_on[code]:
                ways[length] *= size
        if all(length % way == 0 for length, way in zip(lengths, ways, strict=True)):
            found.append(list(row))
    return found


def test_an_axis_may_cut_two_lengths_at_once():
    # code 1 cuts 4 and 6: one axis of 2 divides both, two of them (4 ways) do not divide 6
    found = placements([0, 1], 0, ((), (0, 1)), [4, 6], (2, 2))
    assert found.tolist() == [[0, 0], [0, 1], [1, 0]]


def test_an_axis_of_one_device_is_idle():
    assert placements([0, 1], 1, ((0,), ()), [8], (1, 2)).tolist() == [[1, 0], [1, 1]]


def test_without_axes_there_is_one_row():
    assert placements([0], 0, ((),), [8], ()).shape == (1, 0)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12]), min_size=1, max_size=3),
    st.lists(st.sampled_from([1, 2, 3, 4]), max_size=3),
    st.data(),
)
def test_all_valid_rows_come_in_order(lengths, axis_sizes, data):
    subsets = st.sets(st.sampled_from(range(len(lengths)))).map(sorted).map(tuple)
    lies_on = (*data.draw(st.lists(subsets, min_size=1, max_size=4)), ())
    codes, idle = list(range(len(lies_on))), len(lies_on) - 1
    found = placements(codes, idle, lies_on, lengths, tuple(axis_sizes))
    assert found.tolist() == by_hand(codes, idle, lies_on, lengths, tuple(axis_sizes))
