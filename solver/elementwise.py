"""Element-wise ops that follow: no redistribution is made for them alone.

Such an op takes the first of its inputs that has all of its dims as it lies at rest, or, where
other readers share it, as it is read, which then is as it rests or as one of the others needs it.
Where the value rests partial, any layout is as good: it has to be reduced. A layout that the op
cannot take at all is not forbidden to the value.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from solver.cost_graph import FORBIDDEN, Edge, FloatArray, Projection
from solver.op_info import OpInfo
from solver.problem import Problem
from solver.rules.pointwise import POINTWISE
from solver.states import PARTIAL, REPLICATED, VARIED, IntArray
from solver.values import Value, Values

if TYPE_CHECKING:
    from solver.lowering import Lowered

Mask = NDArray[np.bool_]


def followers(problem: Problem, values: Values, pinned: Collection[int]) -> dict[int, int]:
    """Position of element-wise ops without a pin -> the input that they follow."""
    found = {}
    for position, op in enumerate(problem.ops):
        if position not in pinned and position not in values.views:
            port = _followed_input(op, values)
            if port is not None:
                found[position] = port
    return found


def with_followers(lowered: Lowered) -> Lowered:
    """The same choice without redistributions for the followers of its models."""
    follows = _Followers(lowered)
    edges = [
        own if isinstance(own, Projection) else follows.edge(own) for own in lowered.graph.edges
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

    def edge(self, edge: Edge) -> Edge:
        """The edge, with what is a redistribution for an element-wise op forbidden."""
        if edge.tail in self.rest_of and edge.head in self.read_of:
            value = self.models.values.value_of[self.rest_of[edge.tail]]
            return self._to_read(edge, value)
        position = self.position_of.get(edge.head)
        root = self.rest_of.get(edge.tail, self.read_of.get(edge.tail))
        if root is None or position is None or self._followed_value(position) != root:
            return edge
        value = self.models.values.value_of[root]
        given = self._states(edge.tail, root)
        needed = self._needed(position, self.followed[position])
        key = ("follows", id(edge.cost), len(value.slots))
        cost = self.models.shared(
            key, lambda: _forbidding(edge.cost, as_it_lies(given, needed, len(value.slots)))
        )
        return replace(edge, cost=cost)

    def _to_read(self, edge: Edge, value: Value) -> Edge:
        """Read as it rests, or as a reader needs it that does not follow."""
        readers = dict.fromkeys(value.readers)
        others = [reader for reader in readers if self.followed.get(reader[0]) != reader[1]]
        if len(others) == len(readers):
            return edge
        layouts = self.lowered.read_states[value.root].layouts
        rest = self.lowered.rest_states[value.root]
        numbers = tuple(sorted({id(self.models.ops.model(p)) for p, _ in others}))
        key = ("follows read", id(edge.cost), len(value.slots), numbers)

        def masked() -> FloatArray:
            n = len(value.slots)
            allowed = as_it_lies(rest, layouts, n)
            space = self.models.ops.space(value.root)
            for p, k in others:
                allowed |= np.isin(space.key(layouts), space.key(self._needed(p, k)))
            return _forbidding(edge.cost, allowed)

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


def _followed_input(op: OpInfo, values: Values) -> int | None:
    """The first input, no parameter and not free, with all dims of the output."""
    if op.op.rule is not None or op.op.kind not in POINTWISE or len(op.inputs) == 0:
        return None
    parts = set(op.outputs[0].slot_of)
    for k, port in enumerate(op.inputs):
        value = values.value_of[port.tensor]
        if not value.is_free and not value.is_parameter and parts <= set(port.slot_of):
            return k
    return None


def as_it_lies(given: IntArray, needed: IntArray, slots: int) -> Mask:
    """(given, needed): whether the value needs no move; a partial one may go anywhere."""
    whole = slots + REPLICATED

    def values(states: IntArray) -> IntArray:
        return np.where(states == slots + VARIED, whole, states)

    same = values(given)[:, None, :] == values(needed)[None, :, :]
    found: Mask = (same | (given == slots + PARTIAL)[:, None, :]).all(axis=2)
    return found


def _forbidding(cost: FloatArray, allowed: Mask) -> FloatArray:
    """Forbidden where not allowed, except in rows that would have nothing left."""
    left = (allowed & np.isfinite(cost)).sum(axis=1)
    kept = allowed | (left == 0)[:, None]
    return np.where(kept, cost, FORBIDDEN)
