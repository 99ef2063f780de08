from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from meshwright_solver.search.core.cost_graph import (
    FORBIDDEN,
    CostEdge,
    CostGraph,
    CostNode,
    Projection,
    evaluate_choice,
)
from meshwright_solver.search.infeasible_subset import (
    MemoryConsumer,
    Restriction,
    explain_infeasible,
    minimal,
)
from tests.solver.cost_graphs import brute_force, random_graph


def row_of_two(limit_bytes: float | None = None) -> CostGraph:
    """a, b, c of two states each; neighbours must be equal. State 0 takes 4, 5 and 6 bytes, state 1
    takes 5, 6 and 7."""
    equal = np.array([[0.0, FORBIDDEN], [FORBIDDEN, 0.0]])
    nodes = tuple(
        CostNode(name, np.array([1.0, 2.0]), np.array([least, least + 1.0]))
        for name, least in (("a", 4.0), ("b", 5.0), ("c", 6.0))
    )
    return CostGraph(nodes, (CostEdge(0, 1, equal), CostEdge(1, 2, equal)), limit_bytes)


def only(name: str, node: int, *states: bool) -> Restriction:
    return Restriction(name, {node: np.array(states)})


def test_what_has_a_choice_needs_no_explanation() -> None:
    assert explain_infeasible(row_of_two()) is None
    assert explain_infeasible(row_of_two(15.0)) is None
    assert explain_infeasible(row_of_two(), [only("a is 0", 0, True, False)]) is None


def test_two_pins_that_contradict_are_named_and_no_third() -> None:
    pins = [
        only("a is 0", 0, True, False),
        only("b is anything", 1, True, True),
        only("c is 1", 2, False, True),
        only("c is 0 or 1", 2, True, True),
    ]
    found = explain_infeasible(row_of_two(), pins)
    assert found is not None
    assert (found.constraint, found.names, found.nodes) == (
        "restrictions",
        ("a is 0", "c is 1"),
        (0, 2),
    )
    assert found.is_minimal


def test_one_pin_may_be_too_large_for_the_limit() -> None:
    pins = [only("a is 0 or 1", 0, True, True), only("b is 1", 1, False, True)]
    found = explain_infeasible(row_of_two(17.0), pins)
    assert found is not None
    assert (found.constraint, found.names) == ("restrictions", ("b is 1",))


def test_memory_is_explained_by_the_leanest_choice_part_by_part() -> None:
    found = explain_infeasible(row_of_two(14.5), consumers={"a": [0], "b": [1], "c": [2]})
    assert found is not None
    assert found.constraint == "memory"
    assert (found.minimum_memory_bytes, found.missing_bytes) == (15.0, 0.5)
    assert found.largest == (
        MemoryConsumer((2,), 6.0),
        MemoryConsumer((1,), 5.0),
        MemoryConsumer((0,), 4.0),
    )
    assert found.names == ("a", "b", "c")


def test_only_consumers_that_alone_exceed_the_limit_are_named() -> None:
    # b and c take 11 bytes, a and c 10, a and b 9: with a limit of 10 only b and c exceed it
    found = explain_infeasible(row_of_two(10.0), consumers={"a": [0], "b": [1], "c": [2]})
    assert found is not None
    assert (found.names, found.nodes) == (("b", "c"), (1, 2))


def test_nodes_that_cannot_all_be_chosen_are_named() -> None:
    graph = row_of_two()
    # a third edge closes a ring of an odd number of differences among a, c and d
    differ = np.array([[FORBIDDEN, 0.0], [0.0, FORBIDDEN]])
    nodes = (*graph.nodes, CostNode("d", np.zeros(2)), CostNode("e", np.zeros(2)))
    edges = (*graph.edges, CostEdge(0, 2, differ), CostEdge(2, 3, differ), CostEdge(3, 4, differ))
    found = explain_infeasible(CostGraph(nodes, edges))
    assert found is not None
    assert (found.constraint, found.names) == ("forbidden", ("a", "b", "c"))


def test_no_time_leaves_what_is_known() -> None:
    assert explain_infeasible(row_of_two(1.0), seconds=0.0) is None


def is_impossible(graph: CostGraph, restrictions: Sequence[Restriction]) -> bool:
    """By enumeration."""
    limit = math.inf if graph.memory_limit_bytes is None else graph.memory_limit_bytes
    for choice in itertools.product(*(range(node.cost.size) for node in graph.nodes)):
        found = evaluate_choice(graph, choice)
        if (
            found.cost_ns < FORBIDDEN
            and found.memory_bytes <= limit
            and all(
                allowed[choice[node]]
                for restriction in restrictions
                for node, allowed in restriction.allowed.items()
            )
        ):
            return False
    return True


def is_minimal(parts: Sequence[str], holds: Callable[[Sequence[str]], bool]) -> bool:
    return holds(parts) and not any(
        holds([other for other in parts if other != part]) for part in parts
    )


@pytest.mark.parametrize("batch", range(4))
def test_sets_are_minimal_by_enumeration(batch: int) -> None:
    kinds = {explained(seed) for seed in range(60 * batch, 60 * batch + 60)}
    assert kinds == {None, "restrictions", "forbidden", "memory"}


def explained(seed: int) -> str | None:
    """What a random graph with random pins lacks, once it is checked."""
    random = np.random.default_rng(seed)
    graph = random_graph(seed)
    pins = [
        Restriction(f"{k}", {node: random.random(graph.extents[node]) < 0.5})
        for k, node in enumerate(random.integers(0, len(graph.nodes), 4).tolist())
    ]
    found = explain_infeasible(graph, pins, {str(k): [k] for k in range(len(graph.nodes))})
    if found is None:
        assert not is_impossible(graph, pins), seed
        return None
    assert found.is_minimal
    if found.constraint == "restrictions":
        own = {pin.name: pin for pin in pins}
        holds = is_minimal(found.names, lambda part: is_impossible(graph, [own[n] for n in part]))
    elif found.constraint == "forbidden":
        nodes = [str(node) for node in found.nodes]
        holds = is_minimal(nodes, lambda part: is_impossible(induced(graph, part), []))
    else:
        truth = brute_force(graph).minimum_memory_bytes
        assert found.minimum_memory_bytes == pytest.approx(truth, rel=1e-12), seed
        parts = math.fsum(consumer.memory_bytes for consumer in found.largest)
        assert parts == pytest.approx(truth, rel=1e-12), seed
        holds = is_minimal(found.names, lambda part: is_impossible(counting(graph, part), []))
    assert holds, seed
    return found.constraint


def induced(graph: CostGraph, names: Sequence[str]) -> CostGraph:
    kept = [int(name) for name in names]
    edges: list[CostEdge | Projection] = [
        replace(edge, tail=kept.index(edge.tail), head=kept.index(edge.head))
        for edge in graph.edges
        if edge.tail in kept and edge.head in kept
    ]
    return CostGraph(tuple(graph.nodes[node] for node in kept), tuple(edges))


def counting(graph: CostGraph, names: Sequence[str]) -> CostGraph:
    kept = {int(name) for name in names}
    nodes = tuple(
        node if k in kept else CostNode(node.name, node.cost) for k, node in enumerate(graph.nodes)
    )
    edges = tuple(
        edge
        if isinstance(edge, Projection) or edge.tail in kept
        else CostEdge(edge.tail, edge.head, edge.cost)
        for edge in graph.edges
    )
    return replace(graph, nodes=nodes, edges=edges)


def test_few_questions_find_few_parts_of_many() -> None:
    asked = 0

    def holds(parts: Sequence[int]) -> bool:
        nonlocal asked
        asked += 1
        return {17, 400, 901} <= set(parts)

    assert minimal(range(1000), holds) == ([17, 400, 901], True)
    assert asked < 80
