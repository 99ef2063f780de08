from __future__ import annotations

import numpy as np
import pytest

from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph, CostNode
from meshwright_solver.search.core.outcome import TableTooLarge
from meshwright_solver.search.elimination.elimination_order import elimination_program
from meshwright_solver.search.elimination.repeats import find_runs
from meshwright_solver.search.elimination.tables import Minimum
from tests.solver.cost_graphs import random_chain, unshared

BUDGET = 10**6


def minima(graph: CostGraph) -> list[Minimum]:
    registry = elimination_program(graph, BUDGET).registry
    return [found for found in registry.definitions if isinstance(found, Minimum)]


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(20))
def test_more_repeats_add_no_table_but_one_along_the_chain_each(seed: int) -> None:
    added = len(minima(random_chain(seed, 60))) - len(minima(random_chain(seed, 40)))
    # A block has three nodes; were nothing shared, 20 blocks would add 60 tables.
    assert added <= 20


def test_blocks_without_shared_arrays_share_no_table() -> None:
    graph = unshared(random_chain(0, 40))
    assert len(minima(graph)) >= 3 * 40


def test_a_run_is_cut_where_the_fewest_states_are_read_across() -> None:
    # narrow -> wide -> narrow -> wide ...: only the narrow node of 2 states need stay.
    narrow, wide = CostNode("narrow", np.zeros(2)), CostNode("wide", np.zeros(7))
    there, back = np.zeros((2, 7)), np.zeros((7, 2))
    nodes = (narrow, wide) * 10
    edges = tuple(CostEdge(i, i + 1, there if i % 2 == 0 else back) for i in range(19))
    (run,) = find_runs(CostGraph(nodes, edges))
    assert run.period == 2
    boundary = {(run.start + offset) % 2 for offset in run.boundary}
    assert boundary == {0}


def test_two_different_runs_are_both_found() -> None:
    first, second = CostNode("first", np.zeros(2)), CostNode("second", np.zeros(3))
    among, across, later = np.zeros((2, 2)), np.zeros((2, 3)), np.zeros((3, 3))
    edges = [CostEdge(i, i + 1, among) for i in range(9)] + [CostEdge(9, 10, across)]
    edges += [CostEdge(i, i + 1, later) for i in range(10, 19)]
    runs = find_runs(CostGraph((first,) * 10 + (second,) * 10, tuple(edges)))
    assert [run.period for run in runs] == [1, 1]
    assert runs[0].start < 10 <= runs[1].start


def test_the_smallest_table_goes_first() -> None:
    # A star: the leaves go first, each leaving a vector over the hub.
    hub, leaf = CostNode("hub", np.zeros(9)), CostNode("leaf", np.zeros(20))
    edges = tuple(CostEdge(0, i, np.zeros((9, 20))) for i in range(1, 6))
    program = elimination_program(CostGraph((hub, *(leaf,) * 5), edges), BUDGET)
    assert max(len(shape) for shape in program.registry.shapes) == 2
    assert program.steps[-1].node in (0, 5)


def test_a_hopeless_graph_is_refused_before_its_tables_are_named() -> None:
    wide = CostNode("n", np.zeros(400))
    apart = CostGraph((wide,) * 4_000, (), spans=())
    with pytest.raises(TableTooLarge, match="the whole graph"):
        elimination_program(apart, BUDGET, max_held_entries=10**7)
    # of the same nodes as repeats of one there is little to hold
    alike = CostGraph((wide,) * 4_000, (), spans=((0, 4_000, 1),))
    assert elimination_program(alike, BUDGET, max_held_entries=10**7).entries() <= 10**7


def test_tables_that_add_up_to_too_much_end_the_naming() -> None:
    random = np.random.default_rng(0)
    nodes = tuple(CostNode("n", random.random(20)) for _ in range(40))
    edges = tuple(
        CostEdge(k, k + step, random.random((20, 20))) for step in (1, 2) for k in range(38)
    )
    with pytest.raises(TableTooLarge, match="the whole graph"):
        elimination_program(CostGraph(nodes, edges), BUDGET, max_held_entries=5_000)
