"""Lowering: which nodes and edges stand for a problem, and that equal blocks share them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from meshwright.schema import Setup
from meshwright_solver.lowering.lower import Lowered, lower
from meshwright_solver.search.core.cost_graph import CostEdge, Projection
from meshwright_solver.strategies.mesh_models import Models
from tests.solver.random_problems import Case, cases
from tests.solver.small_graphs import GraphMaker, models


def lowered(maker: GraphMaker, *outputs: str, **setup) -> Lowered:
    found: Models = models(maker.graph(*outputs), (2, 2), Setup(**setup))
    return lower(found, {}, None)


def names(found: Lowered) -> list[str]:
    return [node.name for node in found.graph.nodes]


def joined(found: Lowered) -> set[tuple[str, str]]:
    return {(names(found)[e.tail], names(found)[e.head]) for e in found.graph.edges}


def test_a_value_with_one_reader_is_one_node_and_with_two_readers_two():
    maker = GraphMaker()
    a = maker.op("gelu", [maker.parameter("p", 8, 8)], [8, 8], "a")
    b = maker.op("gelu", [a], [8, 8], "b")
    maker.op("add", [b, b], [8, 8], "c")
    found = lowered(maker, "c:out")
    assert names(found) == ["p", "a", "a:out", "b", "b:out", "b:out (as read)", "c", "c:out"]
    assert joined(found) == {
        ("p", "a"), ("a", "a:out"), ("a:out", "b"), ("b", "b:out"),
        ("b:out", "b:out (as read)"), ("b:out (as read)", "c"), ("c", "c:out"),
    }  # fmt: skip


def test_what_a_matrix_product_saves_can_be_gathered_again():
    maker = GraphMaker()
    a = maker.op("gelu", [maker.parameter("p", 8, 8)], [8, 8], "a")
    maker.op("linear", [a, maker.parameter("w", 8, 8)], [8, 8], "b")
    found = lowered(maker, "b:out")
    states = found.read_states["a:out"]
    assert sorted(states.again.tolist()) == [False] * (len(states.again) // 2) + [True] * (
        len(states.again) // 2
    )
    # in inference nothing is saved
    assert "a:out" not in lowered(maker, "b:out", phase="inference").read_node


def test_views_inputs_and_constants_have_no_nodes():
    maker = GraphMaker()
    x = maker.op("linear", [maker.input("x", 8, 6), maker.parameter("w", 6, 6)], [8, 6], "a")
    y = maker.op("reshape", [x], [8, 2, 3], "view")
    maker.op("mul", [y, maker.tensor("c", [3], "constant")], [8, 2, 3], "b")
    assert names(lowered(maker, "b:out")) == ["w", "a", "a:out", "b", "b:out"]


def test_equal_layers_are_made_of_the_same_arrays():
    maker = GraphMaker()
    x = maker.op("gelu", [maker.parameter("p", 8, 8)], [8, 8], "start")
    for k in range(4):
        x = maker.op("linear", [x, maker.parameter(f"w{k}", 8, 8)], [8, 8], f"fc{k}")
        x = maker.op("gelu", [x], [8, 8], f"act{k}")
    found = lowered(maker, x)
    by_name = {node.name: node for node in found.graph.nodes}
    assert by_name["fc1"].cost is by_name["fc2"].cost
    assert by_name["w1"].cost is by_name["w2"].cost
    assert by_name["w1"].memory is by_name["w2"].memory
    edges = {}
    for edge in found.graph.edges:
        own = edge.select if isinstance(edge, Projection) else edge.cost
        edges[names(found)[edge.tail], names(found)[edge.head]] = own
    for before, after in (("fc{}", "fc{}:out"), ("act{}", "act{}:out"), ("w{}", "fc{}")):
        assert edges[before.format(1), after.format(1)] is edges[before.format(2), after.format(2)]


@settings(max_examples=40, deadline=None)
@given(cases())
def test_costs_are_times_and_memories_are_bytes(case: Case):
    for node in case.lowered.graph.nodes:
        assert (node.cost >= 0).all()
        assert node.memory is None or (np.isfinite(node.memory) & (node.memory >= 0)).all()
    for edge in case.lowered.graph.edges:
        if isinstance(edge, CostEdge):
            assert (edge.cost >= 0).all()
            assert np.isfinite(edge.cost).any()
            assert edge.memory is None or (edge.memory >= 0).all()


@settings(max_examples=40, deadline=None)
@given(cases())
def test_every_op_can_be_repeated_whole_on_all_devices(case: Case):
    # the plan that shards nothing is always there: no request without pins is unsolvable
    for position, choices in case.lowered.op_choices.items():
        model = case.models.ops.model(position)
        everywhere = (model.choices == model.idle).all(axis=1)
        assert everywhere.sum() == 1
        assert len(choices) >= 1
