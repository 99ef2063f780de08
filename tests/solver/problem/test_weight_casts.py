"""Casts of parameters run one product ahead of their readers."""

import numpy as np

from meshwright_solver.problem.weight_casts import running_order


def test_a_cast_runs_before_the_product_ahead_of_its_reader():
    # 0 cast a, 1 cast b (bias), 2 product of both, 3 relu, 4 cast c, 5 product, 6 cast d, 7 product
    is_cast = np.array([True, True, False, False, True, False, True, False])
    first_reader = np.array([2, 2, 8, 8, 5, 8, 7, 8])
    assert running_order(is_cast, first_reader).tolist() == [0, 1, 4, 2, 3, 6, 5, 7]


def test_an_order_without_casts_stays():
    nothing = np.zeros(4, dtype=np.bool_)
    assert running_order(nothing, np.full(4, 4)).tolist() == [0, 1, 2, 3]


def test_a_cast_that_nothing_reads_stays_in_its_place():
    is_cast = np.array([False, True, False])
    assert running_order(is_cast, np.array([3, 3, 3])).tolist() == [0, 1, 2]
