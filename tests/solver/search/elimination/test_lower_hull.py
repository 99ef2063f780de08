"""Choices along the price of memory, against every choice there is."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from meshwright_solver.common.deadline import ENDLESS
from meshwright_solver.search.core.cost_graph import FORBIDDEN, CostGraph, evaluate_choice
from meshwright_solver.search.core.interned_tables import CostWeights
from meshwright_solver.search.core.memory_bracket import PricedStates
from meshwright_solver.search.elimination.elimination_order import elimination_program
from meshwright_solver.search.elimination.evaluated_program import solve
from meshwright_solver.search.elimination.lower_hull import hull
from tests.solver.cost_graphs import random_graph

_ENTRIES = 10**6


def vertices(graph: CostGraph, most: int) -> list[PricedStates]:
    cheapest = solve(elimination_program(graph, _ENTRIES), CostWeights(1.0, 0.0), ENDLESS)
    return hull(cheapest, most, 0.0, ENDLESS) if cheapest.value < FORBIDDEN else []


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(40))
def test_no_choice_lies_below_the_line(seed: int) -> None:
    """By more than what makes no difference: two thousandths of the least cost."""
    graph = random_graph(seed)
    found = vertices(graph, 1000)
    every = [
        cost
        for choice in product(*[range(len(node.cost)) for node in graph.nodes])
        if (cost := evaluate_choice(graph, choice)).cost_ns < FORBIDDEN
    ]
    assert bool(found) == bool(every)
    if not every:
        return
    least_ns = min(own.cost_ns for own in every)
    assert found[0].cost.cost_ns == pytest.approx(least_ns)
    assert found == sorted(found, key=lambda own: own.cost.cost_ns)
    slack = 3e-3 * least_ns
    for over, own in pairwise(found):
        price = (own.cost.cost_ns - over.cost.cost_ns) / (
            over.cost.memory_bytes - own.cost.memory_bytes
        )
        line = over.cost.cost_ns + price * over.cost.memory_bytes
        assert all(cost.cost_ns + price * cost.memory_bytes >= line - slack for cost in every)


def test_one_vertex_is_the_cheapest_choice() -> None:
    graph = random_graph(3)
    (own,) = vertices(graph, 1)
    assert own.cost.cost_ns == vertices(graph, 1000)[0].cost.cost_ns
