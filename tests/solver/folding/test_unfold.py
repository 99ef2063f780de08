"""What a folded graph unfolds to is what the whole graph is lowered to, and reads as it does."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schema import Graph, Stage
from meshwright_solver.evaluation.accounting.assignment import assignment_of_choice
from meshwright_solver.evaluation.accounting.ledger import ledger_of
from meshwright_solver.evaluation.plan_document import stage_document
from meshwright_solver.folding.fold import Folding, fold
from meshwright_solver.folding.kept_copies import items_of
from meshwright_solver.folding.unfold import Unfolding
from meshwright_solver.lowering.lower import Lowered, lower
from meshwright_solver.search.core.cost_graph import (
    CostEdge,
    CostGraph,
    Projection,
    evaluate_choice,
)
from meshwright_solver.search.core.outcome import SearchBudget
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from tests.solver.nested_graphs import drawn, residual
from tests.solver.small_graphs import models

MESH = (2, 4)


def unfolded(folding: Folding) -> Unfolding:
    return Unfolding(folding, lower(models(folding.graph, MESH), {}, None))


def lowered_whole(graph: Graph) -> Lowered:
    return lower(models(graph, MESH), {}, None)


def in_order(items: list[tuple[str, str]]) -> list[int]:
    """Nodes by name; those of one name in the order they have."""
    return sorted(range(len(items)), key=lambda node: (items[node], node))


def some_choice(graph: CostGraph, flavours: int) -> np.ndarray:
    """A choice without anything forbidden, in which layers are of so many kinds, in no order."""
    random, kinds = np.random.default_rng(flavours), np.random.default_rng(0)
    of_layer: dict[str, int] = {}
    drawn: dict[tuple[int, str], float] = {}
    given: dict[int, list[CostEdge | Projection]] = {}
    for edge in graph.edges:
        given.setdefault(edge.head, []).append(edge)
    choice = np.empty(len(graph.nodes), dtype=np.int64)
    for k, node in enumerate(graph.nodes):
        layer, _, name = node.name.rpartition(".")
        kind = of_layer.setdefault(layer, int(kinds.integers(flavours)))
        share = drawn.setdefault((kind, name), float(random.random()))
        fits = np.isfinite(node.cost)
        for edge in given.get(k, ()):
            if isinstance(edge, Projection):
                fits &= np.arange(fits.size) == edge.select[choice[edge.tail]]
            else:
                fits &= np.isfinite(edge.cost[choice[edge.tail]])
        left = np.flatnonzero(fits)
        choice[k] = left[int(share * len(left))]
    return choice


def document(lowered: Lowered, choice: np.ndarray) -> Stage:
    assignment = assignment_of_choice(lowered, choice)
    return stage_document(lowered.models, assignment, ledger_of(lowered.models, assignment))


def folded_document(unfolding: Unfolding, choice: np.ndarray) -> tuple[Stage, int]:
    portions = unfolding.portions(choice)
    own = unfolding.lowered.models
    stages = [
        stage_document(own, p.assignment, ledger_of(own, p.assignment, p.share), p.share)
        for p in portions
    ]
    return unfolding.stage(portions, stages), len(portions)


def check(graph: Graph, levels: int | None = None) -> None:
    folding = fold(graph, {})
    if levels is not None:
        assert len(folding.levels) == levels
    found, whole = unfolded(folding), lowered_whole(graph)
    # the same nodes under the same names
    items, expected_items = found.items(), items_of(whole)
    ours, theirs = in_order(items), in_order(expected_items)
    assert [items[k] for k in ours] == [expected_items[k] for k in theirs]
    assert len(found.graph.edges) == len(whole.graph.edges)
    for flavours in (1, 2):
        choice = some_choice(whole.graph, flavours)
        own = np.empty(len(choice), dtype=np.int64)
        own[ours] = choice[theirs]
        a, b = evaluate_choice(found.graph, own), evaluate_choice(whole.graph, choice)
        assert b.cost_ns < np.inf
        assert a.cost_ns == pytest.approx(b.cost_ns, rel=1e-12)
        assert a.memory_bytes == pytest.approx(b.memory_bytes, rel=1e-12)
        stage, _ = folded_document(found, own)
        expected = document(whole, choice)
        assert stage.ops == expected.ops
        assert stage.tensors == expected.tensors
        assert stage.parameters == expected.parameters
        assert stage.redistributions == expected.redistributions


GRAPHS = {
    "one level": ([(9, [256])], 1),
    "groups of equal layers and another": ([(8, [(8, [256]), 512])], 2),
    "two runs in every group": ([(7, [(7, [256]), 512, (8, [128])])], 2),
    "groups that run into each other": ([(7, [(7, [256, 128]), 256])], 2),
    "few groups": ([(3, [(9, [256]), 512])], 1),
    "groups of seven and of nine in turn": ([(7, [(7, [256]), 512, (9, [256]), 512])], 2),
    "groups of groups": ([(7, [(7, [(7, [128]), 256]), 512])], 3),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_it_is_the_whole_graph(name: str) -> None:
    layers, levels = GRAPHS[name]
    check(residual(layers), levels)


@pytest.mark.parametrize("seed", range(8))
def test_random_nested_graphs(seed: int) -> None:
    check(residual(drawn(seed)))


def test_groups_of_other_lengths_are_not_alike() -> None:
    folding = fold(residual([(4, [(7, [256]), 512]), (4, [(9, [256]), 512])]), {})
    # eight groups, but four of each: the runs inside are all that folds
    assert [sorted(run.copies for run in runs) for runs in folding.levels] == [
        [7, 7, 7, 7, 9, 9, 9, 9]
    ]


def test_what_repeats_is_written_once_however_deep() -> None:
    few, many = ([(count, [(count, [256]), 512])] for count in (8, 12))
    found = []
    for layers in (few, many):
        unfolding = unfolded(fold(residual(layers), {}))
        choice = dynamic_programming(unfolding.graph, SearchBudget()).choice
        assert choice is not None
        found.append(folded_document(unfolding, choice)[1])
    assert found[0] == found[1] < 40
