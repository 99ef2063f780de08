"""Infeasible subsets: minimal explanations of cost graphs that have no choice.

    restrictions   a smallest-by-inclusion set of named restrictions (pins) that no choice satisfies
                   together, within the limit if there is one: without any one of them there is a
                   choice
    forbidden      without restrictions: such a set of nodes, for which every choice is forbidden
    memory         without restrictions: such a set of consumers, whose least memory together is
                   more than the limit; and the least memory of any choice, part by part

All three are minimal sets of a monotone property: more parts never make it false. QuickXplain
(Junker, 2004) finds them in about k log(n / k) searches for k parts out of n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.deadline import Deadline, OutOfTime, Stop, never
from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph, CostNode, evaluate_choice
from meshwright_solver.search.core.graph_transforms import memory_as_cost, without_costs
from meshwright_solver.search.core.lifetimes import LifetimesMatter
from meshwright_solver.search.core.outcome import Outcome, SearchBudget, TableTooLarge
from meshwright_solver.search.elimination.dynamic_programming import dynamic_programming
from meshwright_solver.search.integer.integer_program import exact

Constraint = Literal["restrictions", "forbidden", "memory"]
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Restriction:
    """A named restriction, such as a pin: the states that nodes may have, as masks."""

    name: str
    allowed: Mapping[int, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class MemoryConsumer:
    """The memory of one node, or of an edge (tail, head), in the choice of least memory."""

    nodes: tuple[int, ...]
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class InfeasibleSubset:
    """The explanation of an infeasible cost graph.

    names          restrictions, or consumers if these are named; minimal
    nodes          all nodes that these concern, or the minimal set itself
    is_minimal     False if time ran out: some part may be unnecessary
    minimum_memory_bytes, missing_bytes
                   memory: the memory of the leanest choice, and its excess over the limit; None if
                   time ran out, or memory has lifetimes
    largest        memory: all consumers of the leanest choice, the largest first
    """

    constraint: Constraint
    names: tuple[str, ...]
    nodes: tuple[int, ...]
    is_minimal: bool
    minimum_memory_bytes: float | None = None
    missing_bytes: float | None = None
    largest: tuple[MemoryConsumer, ...] = ()


def explain_infeasible(
    graph: CostGraph,
    restrictions: Sequence[Restriction] = (),
    consumers: Mapping[str, Sequence[int]] = MappingProxyType({}),
    seconds: float | None = None,
    stop: Stop = never,
) -> InfeasibleSubset | None:
    """The explanation; None where a choice satisfies the restrictions and the limit, or no proof
    was found.

    graph: without the restrictions. consumers: by name, the nodes whose memory they are, as
    parameters, saved activations or layers; an edge's memory is its tail's. The set is empty where
    memory is short but these alone would fit.
    """
    deadline = Deadline.after(seconds, stop)
    free = without_costs(graph)
    try:
        if not _is_impossible(_restricted(free, restrictions), deadline):
            return None
        if not _is_impossible(free, deadline):
            return _by_restrictions(free, restrictions, deadline)
        if _is_impossible(replace(free, memory_limit_bytes=None), deadline):
            return _by_forbidden(free, deadline)
        return _by_memory(graph, free, consumers, deadline)
    except OutOfTime:
        return None


def _by_restrictions(
    free: CostGraph, restrictions: Sequence[Restriction], deadline: Deadline
) -> InfeasibleSubset:
    subset, is_minimal = minimal(
        restrictions, lambda part: _is_impossible(_restricted(free, part), deadline)
    )
    nodes = {node for restriction in subset for node in restriction.allowed}
    names = tuple(restriction.name for restriction in subset)
    return InfeasibleSubset("restrictions", names, tuple(sorted(nodes)), is_minimal)


def _by_forbidden(free: CostGraph, deadline: Deadline) -> InfeasibleSubset:
    subset, is_minimal = minimal(
        range(len(free.nodes)), lambda part: _is_impossible(_induced(free, part), deadline)
    )
    nodes = tuple(sorted(subset))
    return InfeasibleSubset(
        "forbidden", tuple(free.nodes[n].name for n in nodes), nodes, is_minimal
    )


def _by_memory(
    graph: CostGraph,
    free: CostGraph,
    consumers: Mapping[str, Sequence[int]],
    deadline: Deadline,
) -> InfeasibleSubset:
    limit = graph.memory_limit_bytes
    assert limit is not None
    needed = missing = None
    largest: tuple[MemoryConsumer, ...] = ()
    is_minimal = True
    try:
        if graph.lifetimes is None:
            choice = _outcome(memory_as_cost(graph), deadline).choice
            assert choice is not None
            needed = evaluate_choice(graph, choice).memory_bytes
            missing = needed - limit
            largest = _memory_consumers(graph, choice)
    except OutOfTime:
        is_minimal = False

    def is_short(part: Sequence[str]) -> bool:
        counted = {node for name in part for node in consumers[name]}
        return _is_impossible(_counting(free, counted), deadline)

    subset: Sequence[str] = ()
    try:
        if is_short(list(consumers)):
            subset, within_time = minimal(list(consumers), is_short)
            is_minimal &= within_time
    except OutOfTime:
        is_minimal = False
    nodes = sorted({node for name in subset for node in consumers[name]})
    return InfeasibleSubset(
        "memory", tuple(subset), tuple(nodes), is_minimal, needed, missing, largest
    )


def minimal(
    parts: Sequence[P], is_impossible: Callable[[Sequence[P]], bool]
) -> tuple[list[P], bool]:
    """A minimal impossible subset: without any one of its parts it is possible. All parts
    together must be impossible.

    is_impossible may raise OutOfTime: the result is then the smallest impossible set so far, and
    False.
    """
    smallest = list(range(len(parts)))

    def is_conflict(numbers: Sequence[int]) -> bool:
        nonlocal smallest
        is_infeasible = is_impossible([parts[number] for number in sorted(numbers)])
        if is_infeasible and len(numbers) < len(smallest):
            smallest = sorted(numbers)
        return is_infeasible

    def needed(base: list[int], is_new: bool, candidates: list[int]) -> list[int]:
        """The candidates that are needed in addition to the base."""
        if is_new and is_conflict(base):
            return []
        if len(candidates) == 1:
            return candidates
        half = len(candidates) // 2
        first, second = candidates[:half], candidates[half:]
        of_second = needed([*base, *first], True, second)
        of_first = needed([*base, *of_second], bool(of_second), first)
        return [*of_first, *of_second]

    try:
        if not parts or is_conflict([]):
            return [], True
        subset = sorted(needed([], False, smallest))
    except OutOfTime:
        return [parts[number] for number in smallest], False
    return [parts[number] for number in subset], True


def _is_impossible(graph: CostGraph, deadline: Deadline) -> bool:
    return _outcome(graph, deadline).status == "infeasible"


def _outcome(graph: CostGraph, deadline: Deadline) -> Outcome:
    """The outcome of a search. Raises OutOfTime where it has neither a choice nor a proof."""
    deadline.check()
    budget = SearchBudget(seconds=deadline.left_s(), stop=deadline.stop)
    try:
        outcome = dynamic_programming(graph, budget)
    except (TableTooLarge, LifetimesMatter):
        outcome = exact(graph, budget)
    if outcome.status == "unknown":
        raise OutOfTime
    return outcome


def _restricted(graph: CostGraph, restrictions: Sequence[Restriction]) -> CostGraph:
    """Forbid the states that a restriction excludes; equal nodes still share an array."""
    masks: dict[int, NDArray[np.bool_]] = {}
    for restriction in restrictions:
        for node, allowed in restriction.allowed.items():
            masks[node] = masks[node] & allowed if node in masks else allowed
    known: dict[tuple[int, bytes], FloatArray] = {}
    nodes = list(graph.nodes)
    for number, allowed in masks.items():
        cost_node = nodes[number]
        key = (id(cost_node.cost), allowed.tobytes())
        if key not in known:
            known[key] = np.where(allowed, cost_node.cost, np.inf)
        nodes[number] = CostNode(cost_node.name, known[key], cost_node.memory)
    return replace(graph, nodes=tuple(nodes), spans=None)


def _induced(graph: CostGraph, part: Sequence[int]) -> CostGraph:
    """The graph of these nodes and the edges between them."""
    place = {node: k for k, node in enumerate(part)}
    edges = [
        replace(edge, tail=place[edge.tail], head=place[edge.head])
        for edge in graph.edges
        if edge.tail in place and edge.head in place
    ]
    return CostGraph(tuple(graph.nodes[node] for node in part), tuple(edges))


def _counting(graph: CostGraph, nodes: set[int]) -> CostGraph:
    """The graph in which only these nodes, and the edges that leave them, take memory."""
    return replace(
        graph,
        nodes=tuple(
            node if number in nodes else CostNode(node.name, node.cost)
            for number, node in enumerate(graph.nodes)
        ),
        edges=tuple(
            CostEdge(edge.tail, edge.head, edge.cost)
            if isinstance(edge, CostEdge) and edge.tail not in nodes
            else edge
            for edge in graph.edges
        ),
        spans=None,
    )


def _memory_consumers(graph: CostGraph, choice: IntArray) -> tuple[MemoryConsumer, ...]:
    consumers = [
        MemoryConsumer((number,), float(node.memory[choice[number]]))
        for number, node in enumerate(graph.nodes)
        if node.memory is not None
    ]
    consumers += [
        MemoryConsumer(
            (edge.tail, edge.head), float(edge.memory[choice[edge.tail], choice[edge.head]])
        )
        for edge in graph.edges
        if isinstance(edge, CostEdge) and edge.memory is not None
    ]
    nonzero = [consumer for consumer in consumers if consumer.memory_bytes > 0]
    return tuple(sorted(nonzero, key=lambda consumer: (-consumer.memory_bytes, consumer.nodes)))
