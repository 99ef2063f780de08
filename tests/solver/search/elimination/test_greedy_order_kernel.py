from __future__ import annotations

import math

import numpy as np
import pytest

from meshwright_solver.search.elimination.greedy_order_kernel import order_of


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(20))
def test_scopes_are_the_neighbours_that_elimination_leaves(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 40))
    extents = random.integers(1, 4, count)
    ends = random.integers(0, count, (2, 2 * count))
    tails, heads = ends[:, ends[0] != ends[1]]
    found = order_of(extents, tails, heads, 1 << 60)
    assert found is not None
    assert sorted(found.nodes.tolist()) == list(range(count))
    around: dict[int, set[int]] = {node: set() for node in range(count)}
    for a, b in zip(tails.tolist(), heads.tolist(), strict=True):
        if extents[a] > 1 and extents[b] > 1:
            around[a].add(b)
            around[b].add(a)
    for step, node in enumerate(found.nodes.tolist()):
        scope = found.scope[found.start[step] : found.start[step + 1]].tolist()
        assert sorted(scope) == sorted(around[node])
        assert found.entries[step] == math.prod(int(extents[other]) for other in scope)
        # greedy: no other node that is left would leave a smaller table
        assert (
            found.entries[step]
            <= min(math.prod(int(extents[other]) for other in own) for own in around.values())
            or extents[node] == 1
        )
        for other in around.pop(node):
            around[other] |= set(scope) - {other}
            around[other].discard(node)


def test_a_star_goes_leaf_by_leaf() -> None:
    leaves = 500
    extents = np.full(leaves + 1, 3)
    found = order_of(extents, np.zeros(leaves, np.int64), np.arange(1, leaves + 1), 9)
    assert found is not None
    assert found.entries.max() == 3


def test_none_where_a_table_would_be_larger_than_it_may() -> None:
    # a ring of three: the first to go joins the two others
    tails, heads = np.array([0, 1, 2]), np.array([1, 2, 0])
    assert order_of(np.full(3, 4), tails, heads, 15) is None
    assert order_of(np.full(3, 4), tails, heads, 16) is not None
