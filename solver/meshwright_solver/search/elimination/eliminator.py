"""Symbolic elimination: the tables that arise when nodes are eliminated, before any number is
computed.

A node is eliminated in one of three ways:

    single state   every factor is sliced, nothing is joined
    decided        a projection decides its state: the deciding node replaces it in every factor,
                   nothing is joined
    minimised      its factors become one over its neighbours; a projection out of it groups the
                   states over which the minimum is taken

Backwards, the steps give the states of a best choice: each node's from those of its neighbours.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from meshwright_solver.search.core.cost_graph import CostEdge, CostNode, Projection
from meshwright_solver.search.elimination.tables import Minimum, Substituted, TableRegistry, Term


@dataclass(frozen=True, slots=True)
class Factor:
    """A table over nodes, or a projection from scope[0] to scope[1]."""

    table: int
    scope: tuple[int, ...]
    is_projection: bool = False


@dataclass(frozen=True, slots=True)
class EliminationStep:
    """One eliminated node; its state follows from those of `neighbours`.

    Minimised: the argmin of the terms and groupings, whose least sum is table `result`. Decided:
    `groupings` is empty, `result` None and the state is `decided_by` of the only neighbour's. A
    single state has neither neighbours nor result.
    """

    node: int
    neighbours: tuple[int, ...]
    terms: tuple[Term, ...] = ()
    groupings: tuple[Term, ...] = ()
    result: int | None = None
    decided_by: int | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """The price of eliminating a node now: entries of the resulting tables, and additions."""

    entries: int
    additions: int


class Eliminator:
    """The remaining factors, by node. Every node is eliminated once, in any order."""

    def __init__(self, extents: Sequence[int], registry: TableRegistry) -> None:
        self.registry = registry
        self.extents = extents
        self.steps: list[EliminationStep] = []
        self.constants: list[int] = []
        self._factors: defaultdict[int, dict[int, Factor]] = defaultdict(dict)
        self._next_factor = 0
        # the result of minimising a node, by tables and places among its neighbours
        self._minimised: dict[Hashable, tuple[tuple[Term, ...], tuple[Term, ...], int]] = {}

    def add_node(self, index: int, node: CostNode) -> None:
        self.add(Factor(self.registry.leaf(node), (index,)))

    def add_edge(self, edge: CostEdge | Projection) -> None:
        scope = (edge.tail, edge.head)
        if isinstance(edge, Projection):
            number = self.registry.select(edge.select, self.extents[edge.head])
            self.add(Factor(number, scope, is_projection=True))
        else:
            self.add(Factor(self.registry.leaf(edge), scope))

    def add(self, factor: Factor) -> None:
        if not factor.scope:
            self.constants.append(factor.table)
            return
        number = self._next_factor
        self._next_factor += 1
        for node in factor.scope:
            self._factors[node][number] = factor

    def factors_left(self) -> list[Factor]:
        """The factors over nodes not yet eliminated, in the order of their creation."""
        factors = {
            n: factor for by_number in self._factors.values() for n, factor in by_number.items()
        }
        return [factors[number] for number in sorted(factors)]

    def neighbours(self, node: int) -> set[int]:
        neighbours = {other for factor in self._factors[node].values() for other in factor.scope}
        neighbours.discard(node)
        return neighbours

    def price(self, node: int) -> Price:
        extents = self.extents
        if extents[node] == 1:
            return Price(0, 0)
        decider = self._decider(node)
        if decider is not None:
            entries = 0
            for factor in self._factors[node].values():
                if factor is not decider:
                    scope = {decider.scope[0], *factor.scope}
                    scope.discard(node)
                    entries += math.prod([extents[other] for other in scope])
            return Price(entries, entries)
        scope = set()
        decided = 1
        for factor in self._factors[node].values():
            scope.update(factor.scope)
            if factor.is_projection:
                decided *= extents[factor.scope[1]]
        scope.discard(node)
        entries = math.prod([extents[other] for other in scope])
        return Price(entries, max(entries // decided, 1) * extents[node])

    def eliminate(self, node: int) -> None:
        decider = self._decider(node)
        factors = list(self._factors[node].values())
        self._detach(node)
        if self.extents[node] == 1:
            self._slice(node, factors)
        elif decider is not None:
            self._substitute(node, decider, [f for f in factors if f is not decider])
        else:
            self._minimise(node, factors)

    def _decider(self, node: int) -> Factor | None:
        for factor in self._factors[node].values():
            if factor.is_projection and factor.scope[1] == node:
                return factor
        return None

    def _slice(self, node: int, factors: list[Factor]) -> None:
        self.steps.append(EliminationStep(node, ()))
        for factor in factors:
            if factor.is_projection and factor.scope[1] == node:
                continue
            dense = self._dense(factor)
            axis = dense.scope.index(node)
            rest = dense.scope[:axis] + dense.scope[axis + 1 :]
            self.add(Factor(self.registry.sliced(dense.table, axis), rest))

    def _substitute(self, node: int, decider: Factor, factors: list[Factor]) -> None:
        tail = decider.scope[0]
        self.steps.append(EliminationStep(node, (tail,), decided_by=decider.table))
        for factor in factors:
            if factor.is_projection and factor.scope[0] == node and factor.scope[1] != tail:
                number = self.registry.composed(decider.table, factor.table)
                self.add(Factor(number, (tail, factor.scope[1]), is_projection=True))
                continue
            dense = self._dense(factor)
            axis = dense.scope.index(node)
            merged = dense.scope.index(tail) if tail in dense.scope else None
            number = self.registry.substituted(
                Substituted(dense.table, decider.table, axis, merged)
            )
            scope = list(dense.scope)
            scope[axis] = tail
            if merged is not None:
                del scope[merged]
            self.add(Factor(number, tuple(scope)))

    def _minimise(self, node: int, factors: list[Factor]) -> None:
        neighbours = tuple(sorted({n for factor in factors for n in factor.scope} - {node}))
        place = {other: axis for axis, other in enumerate((node, *neighbours))}
        # equal for all repeats: tables and axes of the factors
        alike = tuple(
            [
                (factor.table, factor.is_projection, *[place[other] for other in factor.scope])
                for factor in factors
            ]
        )
        result = self._minimised.get(alike)
        if result is None:
            result = self._minimised[alike] = self._minimum(node, neighbours, place, factors)
        self.steps.append(EliminationStep(node, neighbours, *result))
        self.add(Factor(result[2], neighbours))

    def _minimum(
        self, node: int, neighbours: Sequence[int], place: Mapping[int, int], factors: list[Factor]
    ) -> tuple[tuple[Term, ...], tuple[Term, ...], int]:
        """Terms, groupings and table number of a sum of factors."""
        terms: list[Term] = []
        groupings: dict[int, Term] = {}
        for factor in factors:
            if factor.is_projection and factor.scope[1] not in groupings:
                groupings[factor.scope[1]] = Term(factor.table, (0, place[factor.scope[1]]))
                continue
            dense = self._dense(factor)
            terms.append(Term(dense.table, tuple(place[other] for other in dense.scope)))
        terms.sort(key=lambda term: (term.table, term.axes))
        extents = tuple(self.extents[other] for other in (node, *neighbours))
        ordered = tuple(groupings[head] for head in sorted(groupings))
        return (
            tuple(terms),
            ordered,
            self.registry.minimum(Minimum(tuple(terms), ordered, extents)),
        )

    def _dense(self, factor: Factor) -> Factor:
        if not factor.is_projection:
            return factor
        return Factor(self.registry.decided(factor.table), factor.scope)

    def _detach(self, node: int) -> None:
        for number, factor in list(self._factors[node].items()):
            for other in factor.scope:
                del self._factors[other][number]
