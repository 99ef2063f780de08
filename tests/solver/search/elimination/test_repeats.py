"""Stretches that repeat, in rows of numbers."""

from __future__ import annotations

import numpy as np

from meshwright_solver.common.repeats import alike_spans


def spans(*looks: int, repeats: int = 3) -> list[tuple[int, int, int]]:
    return alike_spans(np.array(looks, dtype=np.int64), repeats)


def test_the_longest_stretch_comes_with_its_period():
    # 7 8 four times and a 7, from the second place
    assert spans(1, 7, 8, 7, 8, 7, 8, 7, 8, 7, 2) == [(1, 9, 2)]


def test_two_repeats_are_none():
    assert spans(7, 8, 9, 7, 8, 9, 1) == []


def test_stretches_on_both_sides_of_the_longest_are_found_in_order():
    assert spans(5, 5, 5, 0, 1, 2, 1, 2, 1, 2, 1, 2, 3, 6, 6, 6, 6) == [
        (0, 3, 1), (4, 8, 2), (13, 4, 1)
    ]  # fmt: skip


def test_more_repeats_can_be_asked_for():
    # five times 1 2 are longer, but three times 4 are no five
    assert spans(4, 4, 4, 0, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, repeats=5) == [(4, 10, 2)]


def test_thousands_of_short_stretches_need_no_deep_recursion():
    # a number three times, then one of its own: as many stretches as numbers
    count = 3000
    looks = [x for k in range(count) for x in (2 * k, 2 * k, 2 * k, 2 * k + 1)]
    found = spans(*looks)
    assert found == sorted(found)
    # the work is bounded, so that not all of so many are found
    assert 0 < len(found) <= count
    assert set(found) <= {(4 * k, 3, 1) for k in range(count)}
