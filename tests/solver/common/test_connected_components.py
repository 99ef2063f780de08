"""Connected parts, against networkx."""

from __future__ import annotations

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright_solver.common.connected_components import connected


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    """Up to twelve nodes and edges between any of them, loops and repeats among them."""
    count = draw(st.integers(1, 12))
    node = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(node, node), max_size=16))


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_parts_are_those_of_networkx(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = graph
    labels = connected(count, [a for a, _ in edges], [b for _, b in edges]).tolist()
    expected = nx.Graph(edges)
    expected.add_nodes_from(range(count))
    parts = {frozenset(part) for part in nx.connected_components(expected)}
    found = {frozenset(k for k in range(count) if labels[k] == label) for label in labels}
    assert found == parts
    assert set(labels) == set(range(len(parts)))
