"""Layers of a drawing, against networkx's generations."""

from __future__ import annotations

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright_service.plan_views.graph_view.layered_layout import lay


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_layers_are_the_generations_of_networkx(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 12))
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    edges = data.draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(range(count))
    laid = lay([(10.0, 10.0)] * count, edges)
    rows: dict[float, set[int]] = {}
    for box, (_, y) in enumerate(laid.at):
        rows.setdefault(y, set()).add(box)
    assert [rows[y] for y in sorted(rows)] == [
        set(row) for row in nx.topological_generations(graph)
    ]
