"""Unfolding: the cost graph of a whole graph from the folded one, and the conversion of plans.

Levels of folding are expanded one after the other, the innermost last
(`meshwright_solver.folding.unroll`). Plans are converted in portions
(`meshwright_solver.folding.portions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any, TypeVar

import numpy as np

from meshwright.schema import Graph, Model, Padding, Stage
from meshwright.schema.garbage_collection import uncollected
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.common.renaming import renamed_copies
from meshwright_solver.evaluation.accounting.assignment import assignment_of_choice
from meshwright_solver.evaluation.accounting.ledger import AssignmentShare, Ledger
from meshwright_solver.evaluation.memory.holding_tables import Holdings
from meshwright_solver.evaluation.memory.holdings import holdings_of
from meshwright_solver.evaluation.memory.peak import Moments
from meshwright_solver.evaluation.memory.stage_memory import (
    folded_moments,
    stage_moments,
    stage_order,
)
from meshwright_solver.evaluation.padding import paddings
from meshwright_solver.folding.fold import Folding, Item
from meshwright_solver.folding.kept_copies import Place, RunPositions, items_of, states_of
from meshwright_solver.folding.portions import Portion, portions_of
from meshwright_solver.folding.unroll import Unrolled
from meshwright_solver.lowering.lower import Lowered
from meshwright_solver.lowering.read_states import ReadStates
from meshwright_solver.search.core.cost_graph import CostEdge

M = TypeVar("M", bound=Model)


class Unfolding:
    """Lowered folded problem and the cost graph of the whole graph."""

    @uncollected
    def __init__(self, folding: Folding, lowered: Lowered) -> None:
        """Raises NotAlikeError if copies that share a kept copy differ."""
        self.folding = folding
        self.lowered = lowered
        self.graph = lowered.graph
        # by node of the whole graph: the node of the folded graph that it repeats
        self._origin: IntArray = np.arange(len(self.graph.nodes), dtype=np.int64)
        self._levels: list[Unrolled] = []
        if not folding.levels:
            return
        items, states = items_of(lowered), self._states
        for depth in reversed(range(len(folding.levels))):
            level = Unrolled(
                folding.levels[depth], folding.owners[depth], self.graph, items, states
            )
            self._levels.insert(0, level)
            self.graph = level.graph
            self._origin = self._origin[level.origin]
            if depth:
                items = level.items()
                states = [states[node] for node in level.origin.tolist()]

    def portions(self, choice: IntArray) -> list[Portion]:
        """Portions of a choice of the whole graph."""
        if not self._levels:
            assignment = assignment_of_choice(self.lowered, choice)
            return [Portion(assignment, AssignmentShare.all_of(self.lowered.models, assignment))]
        return portions_of(self.folding, self.lowered, self._levels, choice)

    def stage(self, portions: Sequence[Portion], stages: Sequence[Stage]) -> Stage:
        """Stage of the whole graph, from the stages of its portions."""
        if not self._levels:
            return stages[0]
        order, pairs = self._order, list(zip(portions, stages, strict=True))
        return stages[0].model_copy(
            update={
                "ops": _merge(
                    ((portion, stage.ops) for portion, stage in pairs), lambda op: order.op[op.op]
                ),
                "tensors": _merge(
                    ((portion, stage.tensors) for portion, stage in pairs),
                    lambda planned: order.tensor[planned.tensor],
                ),
                "parameters": _merge(
                    ((portion, stage.parameters) for portion, stage in pairs),
                    lambda planned: order.read[planned.tensor],
                ),
                "redistributions": _merge(
                    ((portion, stage.redistributions) for portion, stage in pairs),
                    lambda moved: (moved.traffic != "activation", order.tensor[moved.tensor]),
                ),
            }
        )

    def moments(self, portions: Sequence[Portion], ledgers: Sequence[Ledger]) -> Moments:
        """Memory peaks of the whole graph. ledgers: of the portions."""
        models = self.lowered.models
        if not self._levels:
            return stage_moments(models, portions[0].assignment, ledgers[0])
        problem, places = models.problem, self._order.op
        ran: dict[str, int] = {}
        held: list[tuple[Holdings, IntArray]] = []
        for portion, ledger in zip(portions, ledgers, strict=True):
            order = stage_order(models, portion.assignment)
            holdings = holdings_of(models, portion.assignment, ledger, portion.share, order)
            positions = np.union1d(holdings.positions, np.array(portion.share.ops, dtype=np.int64))
            ops = [problem.ops[position].name for position in positions.tolist()]
            is_shared = np.isin(positions, portion.share.ops).tolist()
            at = np.full((len(portion.copies), len(problem.ops)), -1, dtype=np.int64)
            for copy, row in zip(portion.copies, at, strict=True):
                called = [copy.names.get(name, name) for name in ops]
                copy_places = [places.get(name, -1) for name in called]
                row[positions] = copy_places
                ran.update(compress(zip(called, copy_places, strict=True), is_shared))
            held.append((holdings, at))
        return folded_moments(problem, ran, held)

    def paddings(self, portions: Sequence[Portion], stages: Sequence[Stage]) -> tuple[Padding, ...]:
        """Paddings of the whole graph."""
        models = self.lowered.models
        if not self._levels:
            return paddings(models, stages[0])
        places = RunPositions(self.folding)
        # one portion per place covers the folded graph
        firsts: dict[Place, Stage] = {}
        for portion, stage in zip(portions, stages, strict=True):
            firsts.setdefault(portion.place, stage)
        ops = [op for stage in firsts.values() for op in stage.ops]
        parameters = [parameter for stage in firsts.values() for parameter in stage.parameters]
        by_portion = []
        for portion, stage in zip(portions, stages, strict=True):
            whole = stage.model_copy(
                update={
                    "ops": (*ops, *stage.ops),
                    "parameters": (*parameters, *stage.parameters),
                }
            )
            padded = paddings(models, whole)
            portion_paddings = [
                p for p in padded if places.of(("tensor", p.tensor)) == portion.place
            ]
            by_portion.append((portion, portion_paddings))
        return _merge(by_portion, lambda padding: self._order.tensor[padding.tensor])

    @property
    def place_of_ops(self) -> Mapping[str, int]:
        """Position of every op in the whole graph."""
        if not self._levels:
            return self.lowered.models.problem.position_of
        return self._order.op

    def items(self) -> list[Item]:
        """Item of every node of the whole graph: its op, or the tensor of its value."""
        return self._levels[0].items() if self._levels else items_of(self.lowered)

    def ends(self, choice: IntArray) -> IntArray:
        """Choice of the folded graph, from the kept copies of a choice of the whole graph."""
        for level in self._levels:
            choice = choice[level.kept_at]
        return choice

    def choice_from(self, other: Unfolding, choice: IntArray) -> IntArray:
        """Choice of another lowering of the same problem, converted to the states of this one.

        This lowering must have all states that the choice uses.
        """
        translated = np.empty(len(choice), dtype=np.int64)
        for node, (mine, theirs) in enumerate(zip(self._states, other._states, strict=True)):
            places = self.places(node)
            translated[places] = _positions(mine, theirs)[choice[places]]
        return translated

    def places(self, node: int) -> IntArray:
        """Nodes of the whole graph that a node of the folded graph stands for, in order."""
        return self._places[node]

    def repeats(self) -> list[IntArray]:
        """Groups of nodes of the whole graph that are one op or parameter in copies of a run, in
        order.

        Copies at the ends are excluded if they have other states.
        """
        lowered, nodes = self.lowered, self.lowered.graph.nodes
        item_of = items_of(lowered)
        counted = {*lowered.op_node.values(), *lowered.parameter_node.values()}
        node_of = {item_of[node]: node for node in counted}
        groups: dict[int, list[IntArray]] = {}
        for node in sorted(counted):
            first = item_of[node]
            for middle in self.folding.middle:
                first = middle.get(first, first)
            like = node_of.get(first)
            if like is not None and nodes[like].cost is nodes[node].cost:
                groups.setdefault(like, []).append(self.places(node))
        node_groups = [np.sort(np.concatenate(places)) for places in groups.values()]
        return [places for places in node_groups if len(places) > 1]

    def activation_tables(self) -> dict[int, FloatArray]:
        """Cost tables of edges on which activations are redistributed, by identity."""
        parameters = {*self.lowered.parameter_node.values()}
        return {
            id(edge.cost): edge.cost
            for edge in self.lowered.graph.edges
            if isinstance(edge, CostEdge) and edge.tail not in parameters
        }

    @cached_property
    def _states(self) -> list[Any]:
        return states_of(self.lowered)

    @cached_property
    def _places(self) -> list[IntArray]:
        order = np.argsort(self._origin, kind="stable")
        count = len(self.lowered.graph.nodes)
        return np.split(order, np.searchsorted(self._origin[order], np.arange(1, count)))

    @cached_property
    def _order(self) -> _Order:
        return _Order.of(self.folding.whole)


@dataclass(frozen=True, slots=True)
class _Order:
    """Positions of ops and tensors in a graph. read: tensors by the first op that reads them."""

    op: Mapping[str, int]
    tensor: Mapping[str, int]
    read: Mapping[str, int]

    @staticmethod
    def of(graph: Graph) -> _Order:
        ops = graph.topological_order()
        read: dict[str, int] = {}
        for op in ops:
            for name in op.inputs:
                read.setdefault(name, len(read))
        return _Order(
            {op.name: place for place, op in enumerate(ops)},
            {tensor.name: place for place, tensor in enumerate(graph.tensors)},
            read,
        )


def _merge(
    pairs: Iterable[tuple[Portion, Sequence[M]]], place: Callable[[M], Any]
) -> tuple[M, ...]:
    """Items of portions, repeated for all copies, sorted by place."""
    merged: list[M] = []
    for portion, items in pairs:
        copies = [copy.names for copy in portion.copies]
        for item in items:
            merged += renamed_copies(item, copies) if any(copies) else [item] * len(copies)
    merged.sort(key=place)
    return tuple(merged)


def _positions(mine: Any, theirs: Any) -> IntArray:
    """Indices of the states of a node among the states of the same node in another lowering."""
    if not isinstance(mine, np.ndarray):
        return np.arange(len(mine.layouts) if isinstance(mine, ReadStates) else len(mine.states))
    if mine is theirs:
        return np.arange(len(mine))
    known = {tuple(row): k for k, row in enumerate(mine.tolist())}
    return np.array([known[tuple(row)] for row in theirs.tolist()], dtype=np.int64)
