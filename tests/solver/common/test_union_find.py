"""Classes of keys, against networkx's union-find."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.utils import UnionFind

from meshwright_solver.common.union_find import Classes

KEYS = "abcdefgh"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)), max_size=12))
def test_classes_are_those_of_networkx(pairs: list[tuple[str, str]]) -> None:
    classes: Classes[str] = Classes()
    expected = UnionFind(KEYS)
    for a, b in pairs:
        classes.join(a, b)
        expected.union(a, b)
    for a in KEYS:
        for b in KEYS:
            assert (classes.find(a) == classes.find(b)) == (expected[a] == expected[b])
