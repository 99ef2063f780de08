"""Shortest paths, against networkx's Dijkstra."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright_solver.layouts.shortest_paths import distances, next_edges

Edges = list[tuple[int, int, int]]  # from, to, cost


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Edges]:
    count = draw(st.integers(1, 9))
    node = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(node, node, st.integers(0, 20)), max_size=30))


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_distances_and_ways_are_those_of_networkx(graph: tuple[int, Edges]) -> None:
    count, edges = graph
    edges = sorted(edges, key=lambda edge: edge[1])
    expected = nx.MultiDiGraph()
    expected.add_nodes_from(range(count))
    expected.add_weighted_edges_from(edges)
    ends = np.array([end for _, end, _ in edges], dtype=np.int64)
    start = np.searchsorted(ends, np.arange(count + 1))
    source = np.array([begin for begin, _, _ in edges], dtype=np.int32)
    cost = np.array([own for *_, own in edges], dtype=np.float64)
    nodes = np.arange(count)
    found = distances(start, source, cost, nodes, nodes)
    for node in range(count):
        lengths = nx.single_source_dijkstra_path_length(expected, node)
        assert found[node].tolist() == [lengths.get(other, np.inf) for other in range(count)]
    edge = next_edges(start, source, cost, 0)
    for node in range(count):
        if np.isfinite(found[node, 0]):
            way = [node]
            total = 0.0
            while way[-1] != 0:
                assert source[edge[way[-1]]] == way[-1]
                total += cost[edge[way[-1]]]
                way.append(int(ends[edge[way[-1]]]))
            assert total == found[node, 0]
            # of the cheapest paths one of fewest edges
            assert len(way) == min(map(len, nx.all_shortest_paths(expected, node, 0, "weight")))
        else:
            assert edge[node] == -1
