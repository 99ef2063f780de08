from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.search.elimination.min_sum import Grouping, MinSumPlan, Operand, minimum


def joint_minimum(
    operands: list[Operand], groupings: list[Grouping], extents: tuple[int, ...]
) -> FloatArray:
    """The same by the joint table over all axes."""
    joint = np.zeros(extents)
    for operand in operands:
        joint = joint + operand.aligned(tuple(range(len(extents))))
    for grouping in groupings:
        follows = grouping.select[:, None] == np.arange(extents[grouping.axis])
        table = np.where(follows, 0.0, np.inf)
        joint = joint + Operand(table, (0, grouping.axis)).aligned(tuple(range(len(extents))))
    return np.asarray(joint.min(axis=0))


def test_two_tables_make_a_min_plus_product() -> None:
    # result[a, b] = min over v of left[v, a] + right[b, v]
    left = Operand(np.array([[1.0, 5.0], [4.0, 2.0]]), (0, 1))
    right = Operand(np.array([[10.0, 0.0], [0.0, np.inf]]), (2, 0))
    result = minimum([left, right], [], (2, 2, 2))
    assert result.tolist() == [[4.0, 1.0], [2.0, 5.0]]


def test_a_grouping_takes_the_minimum_within_each_group_and_inf_where_none_is() -> None:
    table = Operand(np.array([3.0, 1.0, 2.0]), (0,))
    result = minimum([table], [Grouping(np.array([2, 0, 2]), 1)], (3, 3))
    assert result.tolist() == [1.0, np.inf, 2.0]


@settings(max_examples=400, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    axes=st.integers(0, 4),
    count=st.integers(1, 6),
    grouped=st.integers(0, 2),
)
def test_equals_the_joint_table(seed: int, axes: int, count: int, grouped: int) -> None:
    random = np.random.default_rng(seed)
    extents = tuple(int(k) for k in random.integers(1, 8, axes + 1))
    operands = []
    for _ in range(count):
        others = [axis for axis in range(1, axes + 1) if random.random() < 0.5]
        order = tuple(int(axis) for axis in random.permutation([0, *others]))
        table = random.integers(0, 50, [extents[axis] for axis in order]).astype(np.float64)
        table[random.random(table.shape) < 0.1] = np.inf
        operands.append(Operand(table, order))
    decided = [int(axis) for axis in random.permutation(np.arange(1, axes + 1))[:grouped]]
    groupings = [
        Grouping(random.integers(0, extents[axis], extents[0]), axis) for axis in sorted(decided)
    ]
    covered = {axis for operand in operands for axis in operand.axes} | set(decided) | {0}
    missing = [axis for axis in range(1, axes + 1) if axis not in covered]
    operands += [Operand(np.zeros((extents[0], extents[axis])), (0, axis)) for axis in missing]
    result = minimum(operands, groupings, extents)
    assert result.tolist() == joint_minimum(operands, groupings, extents).tolist()
    shapes = [own.table.shape for own in operands]
    recipe = MinSumPlan.of([own.axes for own in operands], extents, shapes)
    if recipe is not None and not groupings:
        tables = [own.table for own in operands]
        before = [own.copy() for own in tables]
        assert recipe.minimum(tables).tolist() == result.tolist()
        assert all(np.array_equal(own, was) for own, was in zip(tables, before, strict=True))


def test_recipes_are_for_all_that_need_no_loop() -> None:
    assert MinSumPlan.of([(0, 1), (0, 2), (0,)], (2, 3, 4), [(2, 3), (2, 4), (2,)]) is not None
    loop = [(0, 1), (0, 2), (0, 3)]
    assert MinSumPlan.of(loop, (2, 3, 4, 5), [(2, 3), (2, 4), (2, 5)]) is None


@pytest.mark.parametrize("groups", [None, 3])
def test_large_tables_are_streamed_to_the_same_result(groups: int | None) -> None:
    random = np.random.default_rng(0)
    extents = (5, 1100, 420) if groups is None else (5, 1100, 420, groups)
    big = Operand(random.random((1100, 5, 420)), (1, 0, 2))
    small = Operand(random.random((420, 5)), (2, 0))
    groupings = [] if groups is None else [Grouping(np.array([0, 2, 2, 0, 0]), 3)]
    result = minimum([big, small], groupings, extents)
    assert np.array_equal(result, joint_minimum([big, small], groupings, extents))
