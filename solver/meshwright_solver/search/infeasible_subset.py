"""Why a cost graph has no choice: a minimal explanation.

    restrictions   a smallest-by-inclusion set of named restrictions (pins) that no choice keeps
                   together, within the limit where there is one: with any one of them left out
                   there is a choice
    forbidden      without restrictions: such a set of nodes, that cannot all be chosen
    memory         without restrictions: such a set of consumers, whose least memory together is
                   more than the limit; and the least memory that any choice takes, part by part

All three are minimal sets of a monotone property: more parts never make it false. They are found by
QuickXplain (Junker, 2004): about k log(n / k) searches for k parts out of n.
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
    """What is asked for by name, such as a pin: the states that nodes may have, as masks."""

    name: str
    allowed: Mapping[int, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class MemoryConsumer:
    """What one node, or an edge (tail, head), takes in the choice of least memory."""

    nodes: tuple[int, ...]
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class InfeasibleSubset:
    """Why there is no choice.

    names          restrictions, or consumers where they were given names; minimal
    nodes          all nodes that these speak of, or the minimal set itself
    is_minimal     False where the time ended: something may be left out
    minimum_memory_bytes, missing_bytes
                   memory: what the leanest choice takes, and takes above the limit; None where the
                   time ended first, or memory has lifetimes
    largest        memory: all that the leanest choice takes, the largest first
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
    """Why no choice keeps the restrictions and the limit; None where one does, or none was proved.

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
    kept, is_minimal = minimal(
        restrictions, lambda part: _is_impossible(_restricted(free, part), deadline)
    )
    nodes = {node for restriction in kept for node in restriction.allowed}
    names = tuple(restriction.name for restriction in kept)
    return InfeasibleSubset("restrictions", names, tuple(sorted(nodes)), is_minimal)


def _by_forbidden(free: CostGraph, deadline: Deadline) -> InfeasibleSubset:
    kept, is_minimal = minimal(
        range(len(free.nodes)), lambda part: _is_impossible(_induced(free, part), deadline)
    )
    nodes = tuple(sorted(kept))
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
            choice = _searched(memory_as_cost(graph), deadline).choice
            assert choice is not None
            needed = evaluate_choice(graph, choice).memory_bytes
            missing = needed - limit
            largest = _taken(graph, choice)
    except OutOfTime:
        is_minimal = False

    def is_short(part: Sequence[str]) -> bool:
        counted = {node for name in part for node in consumers[name]}
        return _is_impossible(_counting(free, counted), deadline)

    kept: Sequence[str] = ()
    try:
        if is_short(list(consumers)):
            kept, within_time = minimal(list(consumers), is_short)
            is_minimal &= within_time
    except OutOfTime:
        is_minimal = False
    nodes = sorted({node for name in kept for node in consumers[name]})
    return InfeasibleSubset(
        "memory", tuple(kept), tuple(nodes), is_minimal, needed, missing, largest
    )


def minimal(
    parts: Sequence[P], is_impossible: Callable[[Sequence[P]], bool]
) -> tuple[list[P], bool]:
    """A subset that is impossible while none of its parts can be left out; all of them must be.

    is_impossible may raise OutOfTime: then the smallest impossible set met, and False.
    """
    smallest = list(range(len(parts)))

    def asked(numbers: Sequence[int]) -> bool:
        nonlocal smallest
        found = is_impossible([parts[number] for number in sorted(numbers)])
        if found and len(numbers) < len(smallest):
            smallest = sorted(numbers)
        return found

    def needed(given: list[int], is_new: bool, candidates: list[int]) -> list[int]:
        """Which candidates are needed beside those given."""
        if is_new and asked(given):
            return []
        if len(candidates) == 1:
            return candidates
        half = len(candidates) // 2
        first, second = candidates[:half], candidates[half:]
        of_second = needed([*given, *first], True, second)
        of_first = needed([*given, *of_second], bool(of_second), first)
        return [*of_first, *of_second]

    try:
        if not parts or asked([]):
            return [], True
        found = sorted(needed([], False, smallest))
    except OutOfTime:
        return [parts[number] for number in smallest], False
    return [parts[number] for number in found], True


def _is_impossible(graph: CostGraph, deadline: Deadline) -> bool:
    return _searched(graph, deadline).status == "infeasible"


def _searched(graph: CostGraph, deadline: Deadline) -> Outcome:
    """Raises OutOfTime where neither a choice nor a proof that there is none was found."""
    deadline.check()
    budget = SearchBudget(seconds=deadline.left_s(), stop=deadline.stop)
    try:
        found = dynamic_programming(graph, budget)
    except (TableTooLarge, LifetimesMatter):
        found = exact(graph, budget)
    if found.status == "unknown":
        raise OutOfTime
    return found


def _restricted(graph: CostGraph, restrictions: Sequence[Restriction]) -> CostGraph:
    """States that a restriction does not allow are forbidden; equal nodes still share an array."""
    masks: dict[int, NDArray[np.bool_]] = {}
    for restriction in restrictions:
        for node, allowed in restriction.allowed.items():
            masks[node] = masks[node] & allowed if node in masks else allowed
    known: dict[tuple[int, bytes], FloatArray] = {}
    nodes = list(graph.nodes)
    for number, allowed in masks.items():
        own = nodes[number]
        key = (id(own.cost), allowed.tobytes())
        if key not in known:
            known[key] = np.where(allowed, own.cost, np.inf)
        nodes[number] = CostNode(own.name, known[key], own.memory)
    return replace(graph, nodes=tuple(nodes), spans=None)


def _induced(graph: CostGraph, kept: Sequence[int]) -> CostGraph:
    """Only these nodes and the edges between them."""
    place = {node: k for k, node in enumerate(kept)}
    edges = [
        replace(edge, tail=place[edge.tail], head=place[edge.head])
        for edge in graph.edges
        if edge.tail in place and edge.head in place
    ]
    return CostGraph(tuple(graph.nodes[node] for node in kept), tuple(edges))


def _counting(graph: CostGraph, nodes: set[int]) -> CostGraph:
    """Only the memory of these nodes counts, and of the edges that leave them."""
    return replace(
        graph,
        nodes=tuple(
            own if number in nodes else CostNode(own.name, own.cost)
            for number, own in enumerate(graph.nodes)
        ),
        edges=tuple(
            CostEdge(edge.tail, edge.head, edge.cost)
            if isinstance(edge, CostEdge) and edge.tail not in nodes
            else edge
            for edge in graph.edges
        ),
        spans=None,
    )


def _taken(graph: CostGraph, choice: IntArray) -> tuple[MemoryConsumer, ...]:
    found = [
        MemoryConsumer((number,), float(node.memory[choice[number]]))
        for number, node in enumerate(graph.nodes)
        if node.memory is not None
    ]
    found += [
        MemoryConsumer(
            (edge.tail, edge.head), float(edge.memory[choice[edge.tail], choice[edge.head]])
        )
        for edge in graph.edges
        if isinstance(edge, CostEdge) and edge.memory is not None
    ]
    own = [consumer for consumer in found if consumer.memory_bytes > 0]
    return tuple(sorted(own, key=lambda consumer: (-consumer.memory_bytes, consumer.nodes)))
