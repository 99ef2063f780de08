"""Element-wise following: element-wise ops take the layout of an input, without a redistribution.

Such an op follows its first input that has all of its dims. It takes the layout at rest of that
input or, if other readers share the value, the read layout. The read layout is then the layout at
rest or a layout that another reader needs. A partial value may move to any layout, because it has
to be reduced. Layouts that the op cannot take remain allowed for the value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from meshwright_solver.common.arrays import BoolArray, FloatArray, IntArray
from meshwright_solver.layouts.states import PARTIAL, REPLICATED, VARIED
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.search.core.cost_graph import FORBIDDEN, CostEdge, Projection

if TYPE_CHECKING:
    from meshwright_solver.lowering.lower import Lowered


def with_followers(lowered: Lowered) -> Lowered:
    """Lowered problem without redistributions for the followers of its models."""
    follows = _Followers(lowered)
    edges = [
        edge if isinstance(edge, Projection) else follows.edge(edge) for edge in lowered.graph.edges
    ]
    return replace(lowered, graph=replace(lowered.graph, edges=tuple(edges)))


class _Followers:
    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.models = lowered.models
        self.followed = lowered.models.followers
        self.position_of = {node: position for position, node in lowered.op_node.items()}
        self.rest_of = {node: root for root, node in lowered.rest_node.items()}
        self.read_of = {node: root for root, node in lowered.read_node.items()}

    def edge(self, edge: CostEdge) -> CostEdge:
        """Edge with forbidden redistributions for an element-wise op."""
        if edge.tail in self.rest_of and edge.head in self.read_of:
            value = self.models.values.value_of[self.rest_of[edge.tail]]
            return self._to_read(edge, value)
        position = self.position_of.get(edge.head)
        root = self.rest_of.get(edge.tail, self.read_of.get(edge.tail))
        if root is None or position is None or self._followed_value(position) != root:
            return edge
        value = self.models.values.value_of[root]
        tail_states = self._states(edge.tail, root)
        needed = self._needed(position, self.followed[position])
        key = ("follows", self.models.key_of(edge.cost), len(value.slots))
        cost = self.models.shared(
            key, lambda: _forbid(edge.cost, as_it_lies(tail_states, needed, len(value.slots)))
        )
        return replace(edge, cost=cost)

    def _to_read(self, edge: CostEdge, value: ProblemValue) -> CostEdge:
        """Edge to a read layout: only the layout at rest, or a layout that a non-following reader
        needs."""
        readers = dict.fromkeys(value.readers)
        others = [reader for reader in readers if self.followed.get(reader[0]) != reader[1]]
        if len(others) == len(readers):
            return edge
        layouts = self.lowered.read_states[value.root].layouts
        rest = self.lowered.rest_states[value.root]
        numbers = tuple(sorted({self.models.key_of(self.models.ops.model(p)) for p, _ in others}))
        key = ("follows read", self.models.key_of(edge.cost), len(value.slots), numbers)

        def masked() -> FloatArray:
            n = len(value.slots)
            allowed = as_it_lies(rest, layouts, n)
            space = self.models.ops.space(value.root)
            for p, k in others:
                allowed |= np.isin(space.key(layouts), space.key(self._needed(p, k)))
            return _forbid(edge.cost, allowed)

        return replace(edge, cost=self.models.shared(key, masked))

    def _followed_value(self, position: int) -> str | None:
        port = self.followed.get(position)
        if port is None:
            return None
        op = self.models.problem.ops[position]
        return self.models.values.value_of[op.inputs[port].tensor].root

    def _states(self, node: int, root: str) -> IntArray:
        if node in self.rest_of:
            return self.lowered.rest_states[root]
        return self.lowered.read_states[root].layouts

    def _needed(self, position: int, port: int) -> IntArray:
        return self.models.ops.model(position).required(self.lowered.op_choices[position], port)


def as_it_lies(source: IntArray, needed: IntArray, slots: int) -> BoolArray:
    """Mask (source, needed): whether no redistribution is needed.

    A partial value matches any layout.
    """
    whole = slots + REPLICATED

    def values(states: IntArray) -> IntArray:
        return np.where(states == slots + VARIED, whole, states)

    same = values(source)[:, None, :] == values(needed)[None, :, :]
    matches: BoolArray = (same | (source == slots + PARTIAL)[:, None, :]).all(axis=2)
    return matches


def _forbid(cost: FloatArray, allowed: BoolArray) -> FloatArray:
    """Costs with FORBIDDEN where not allowed, except in rows without any allowed entry."""
    allowed_counts = (allowed & np.isfinite(cost)).sum(axis=1)
    permitted = allowed | (allowed_counts == 0)[:, None]
    return np.where(permitted, cost, FORBIDDEN)
