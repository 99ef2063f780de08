"""Graphs of layouts, counted by hand. That their paths are right is executed elsewhere."""

from __future__ import annotations

import numpy as np

from meshwright_solver.layouts.layout_graph import LayoutGraph, layout_graph
from meshwright_solver.layouts.states import PARTIAL, REPLICATED, StateSpace


def moves_into(graph: LayoutGraph, layout: int) -> list[tuple[str, tuple[int, ...], int]]:
    edges = range(graph.start[layout], graph.start[layout + 1])
    return [(*graph.prices[graph.price[e]], int(graph.source[e])) for e in edges]


def test_one_slot_and_one_axis_have_three_layouts_and_the_ways_between_them():
    graph = layout_graph(StateSpace((8,), (2,), 32, False), order_is_free=False)
    sharded, whole, partial = 0, 1, 2
    assert graph.places.tolist() == [[0], [1 + REPLICATED], [1 + PARTIAL]]
    assert moves_into(graph, whole) == [
        ("all_gather", (0,), sharded), ("all_reduce", (0,), partial)
    ]  # fmt: skip
    # shards as partial sums that are zero elsewhere, and whole values on the first device alone
    assert moves_into(graph, partial) == [("mask", (0,), sharded), ("mask", (0,), whole)]
    # what puts an axis on a slot goes through the layout without it
    [(kind, _, rest)] = moves_into(graph, sharded)
    assert (kind, rest) == ("placed", 3)
    assert [own[0] for own in moves_into(graph, rest)] == [
        "uneven all_to_all", "reduce_scatter", "slice"
    ]  # fmt: skip


def test_two_axes_on_one_slot_lie_there_in_two_orders():
    graph = layout_graph(StateSpace((8,), (2, 4), 32, False), order_is_free=False)
    both = (graph.places == 0).all(axis=1)
    assert graph.ranks[both].tolist() == [[0, 1], [1, 0]]
    # the order of the mesh stands for the state
    assert [graph.ranks[k].tolist() for k in graph.leaves if both[k]] == [[0, 1]]
    assert len(graph.leaves) == 9
    assert (graph.leaves == graph.arrives).all()


def test_axes_of_equal_size_change_places_by_one_send():
    def permutes(axis_sizes: tuple[int, ...]) -> set[tuple[int, ...]]:
        graph = layout_graph(StateSpace((64,), axis_sizes, 64, False), order_is_free=False)
        used = np.unique(graph.price)
        return {graph.prices[p][1] for p in used if graph.prices[p][0] == "permute"}

    # S on the one to S on the other needs equal sizes; another order on a slot does not
    assert permutes((2, 2)) == {(0, 1)}
    graph = layout_graph(StateSpace((64,), (2, 2), 64, False), order_is_free=False)
    alone = [k for k in range(graph.layouts) if sorted(graph.places[k].tolist()) == [0, 1]]
    sources = [s for kind, _, s in moves_into(graph, alone[0]) if kind == "permute"]
    assert sources == [alone[1]]


def test_where_order_is_free_ways_start_and_end_in_any_order_of_a_state():
    space = StateSpace((8,), (2, 4), 32, False)
    graph = layout_graph(space, order_is_free=True)
    assert graph.layouts == len(space.states) + 1
    both = int(space.index(np.array([[0, 0]]))[0])
    second_alone = int(space.index(np.array([[1 + REPLICATED, 0]]))[0])
    orders = np.flatnonzero(graph.state == both)
    for order in orders:
        assert ("placed", (), int(graph.leaves[both])) in moves_into(graph, int(order))
    assert [source for *_, source in moves_into(graph, int(graph.arrives[both]))] == [*orders]
    # the first axis leaves where it is the fastest
    (alone,) = np.flatnonzero(graph.state == second_alone)
    gathered = [s for kind, _, s in moves_into(graph, int(alone)) if kind == "all_gather"]
    assert [graph.ranks[s].tolist() for s in gathered] == [[1, 0]]
