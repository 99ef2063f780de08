"""Repeated items are those that a tuple of all of them would hold."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright_solver.common.shared_sequence import Repeated, firsts, parts_of
from meshwright_solver.search.core.cost_graph import (
    CostEdge,
    CostGraph,
    CostGraphError,
    CostNode,
    Projection,
    RepeatedEdges,
)
from meshwright_solver.search.core.cost_graph import evaluate_choice as cost_of

TWO = CostNode("two", np.array([1.0, 2.0]))
THREE = CostNode("three", np.array([10.0, 20.0, 30.0]), np.array([1.0, 2.0, 4.0]))


def test_items_are_their_parts_one_by_one_and_all_together():
    items = Repeated("abc", np.array([2, 0, 0, 1]))
    assert (items[0], items[-1], len(items)) == ("c", "b", 4)
    assert (list(items), items[1:3]) == (["c", "a", "a", "b"], ("a", "a"))
    with pytest.raises(IndexError):
        Repeated("abc", np.array([0]))[1]


def test_parts_of_what_repeats_nothing_are_its_items():
    parts, numbers = parts_of(("a", "b"))
    assert (parts, numbers.tolist()) == (("a", "b"), [0, 1])


def test_the_first_of_each_number():
    assert firsts(np.array([3, 1, 1, 3])).tolist() == [-1, 1, -1, 0]
    assert firsts(np.array([], dtype=np.int64)).tolist() == []


def test_a_graph_of_repeated_parts_is_the_one_written_out():
    random = np.random.default_rng(1)
    tables = [
        CostEdge(0, 1, random.random((2, 3)), random.random((2, 3))),
        CostEdge(0, 1, np.ones((2, 3))),
    ]
    parts = [*tables, Projection(0, 1, np.array([2, 0]))]
    nodes = Repeated((TWO, THREE), np.array([0, 1, 0, 1, 0, 1]))
    edges = RepeatedEdges(
        parts, np.array([0, 1, 2, 1]), np.array([0, 2, 4, 0]), np.array([1, 3, 5, 5])
    )
    short, long = CostGraph(nodes, edges, 9.0), CostGraph(tuple(nodes), tuple(edges), 9.0)
    assert short.extents.tolist() == long.extents.tolist() == [2, 3, 2, 3, 2, 3]
    assert [own.tolist() for own in (*short.ends, *short.kinds)] == [
        own.tolist() for own in (*long.ends, *long.kinds)
    ]
    for choice in random.integers(2, size=(20, 6)):
        assert cost_of(short, choice) == cost_of(long, choice)


@pytest.mark.parametrize(
    ("tail", "head", "message"),
    [(1, 0, r"the nodes need \(3, 2\)"), (0, 2, "only nodes 0 to 1"), (1, 1, "joins two nodes")],
)
def test_every_copy_of_an_edge_is_checked(tail, head, message):
    edges = RepeatedEdges(
        [CostEdge(0, 1, np.ones((2, 3)))],
        np.array([0, 0]),
        np.array([0, tail]),
        np.array([1, head]),
    )
    with pytest.raises(CostGraphError, match=message):
        CostGraph((TWO, THREE), edges)
