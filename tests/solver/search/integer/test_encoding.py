from __future__ import annotations

import math

import numpy as np
import pytest
from ortools.sat.python import cp_model

from meshwright_solver.common.deadline import Deadline
from meshwright_solver.search.core.cost_graph import FORBIDDEN, CostGraph, evaluate_choice
from meshwright_solver.search.integer.dual import Dual
from meshwright_solver.search.integer.encoding import Encoding
from meshwright_solver.search.integer.pairs import pairs_of
from meshwright_solver.search.integer.reductions import NoChoice, reduce
from tests.solver.cost_graphs import brute_force
from tests.solver.entangled_graphs import Memory, entangled_graph

FOREVER = Deadline.after(None)


def solved(graph: CostGraph, price: float) -> tuple[float, float] | None:
    """Cost and bound of the model with all rows of memory; None where nothing is left to encode."""
    pairs = pairs_of(graph)
    reduce(pairs, FOREVER)
    if not pairs.nodes:
        return None
    dual = Dual(pairs)
    if graph.memory_limit_bytes is not None:
        own = price * dual.magnitude / graph.memory_limit_bytes / pairs.moments
        dual.price(np.full(pairs.moments, own))
    dual.improve(3, FOREVER)
    encoding = Encoding(dual, math.inf)
    if graph.memory_limit_bytes is not None:
        for moment in set(range(pairs.moments)) - encoding.moments:
            encoding.add_row(moment)
    encoding.minimise(math.inf)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(encoding.model)
    if status == cp_model.INFEASIBLE:
        return FORBIDDEN, FORBIDDEN
    assert status == cp_model.OPTIMAL
    places = {
        node: [solver.boolean_value(literal) for literal in literals].index(True)
        for node, literals in encoding.states.items()
    }
    found = evaluate_choice(graph, pairs.expanded(places))
    return found.cost_ns, encoding.bound_ns(solver.best_objective_bound)


@pytest.mark.parametrize("price", [0.0, 0.2])
@pytest.mark.parametrize("memory", ["none", "always", "lifetimes"])
def test_the_optimum_of_the_model_is_that_of_the_graph(memory: Memory, price: float) -> None:
    encoded = 0
    for seed in range(25):
        graph = entangled_graph(seed, memory)
        truth = brute_force(graph).cost_ns
        try:
            found = solved(graph, price)
        except NoChoice:
            continue
        if found is None:
            continue
        encoded += 1
        assert found[0] == pytest.approx(truth, rel=1e-12), seed
        assert found[1] <= truth, seed
        assert found[1] == pytest.approx(truth, rel=1e-12), seed
    assert encoded >= 5


def test_an_excluded_choice_is_no_solution() -> None:
    graph = entangled_graph(3, "none")
    dual = Dual(pairs_of(graph))
    encoding = Encoding(dual, math.inf)
    encoding.minimise(math.inf)
    found = []
    for _ in range(3):
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        assert solver.solve(encoding.model) == cp_model.OPTIMAL
        places = {
            node: [solver.boolean_value(literal) for literal in literals].index(True)
            for node, literals in encoding.states.items()
        }
        encoding.exclude(places)
        found.append((dual.pairs.cost_ns(places), tuple(places.values())))
    assert len({places for _, places in found}) == 3
    assert [cost for cost, _ in found] == sorted(cost for cost, _ in found)
