"""Where layouts meet: what the nodes of a lowered graph are, and the re-layouts between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from meshwright.schema import Layout
from solver.assignment import Codes, layout_of
from solver.cost_graph import FORBIDDEN, Edge, FloatArray, IntArray, Projection
from solver.lowering import Lowered
from solver.states import PARTIAL
from solver.values import Value


@dataclass(frozen=True, slots=True)
class Relayout:
    """A tensor that goes from one layout to another, in ns of one step."""

    tensor: str
    layouts: tuple[Layout, Layout]
    ns: float


@dataclass(slots=True)
class Meeting:
    """A lowered graph, the state of every node, and what the nodes are."""

    lowered: Lowered
    choice: IntArray
    position_of: dict[int, int] = field(init=False)
    rest_of: dict[int, str] = field(init=False)
    read_of: dict[int, str] = field(init=False)

    def __post_init__(self) -> None:
        self.position_of = {node: p for p, node in self.lowered.op_node.items()}
        self.rest_of = {node: root for root, node in self.lowered.rest_node.items()}
        self.read_of = {node: root for root, node in self.lowered.read_node.items()}

    def name(self, node: int) -> str:
        return self.lowered.graph.nodes[node].name

    def op_name(self, node: int) -> str | None:
        """The name of the op that a node is; None for others."""
        return self.name(node) if node in self.position_of else None

    def forward(self, k: int) -> Edge | Projection:
        """An edge with the time of the value's way alone, without reductions; parameters' as is."""
        edge = self.lowered.graph.edges[k]
        root = self._root(edge)
        if isinstance(edge, Projection) or root is None:
            return edge
        models = self.lowered.models
        value = models.values.value_of[root]

        def forward_ns() -> FloatArray:
            moves = models.redistributions(models.ops.space(root))
            rows, columns = self._states(value, edge.tail), self._states(value, edge.head)
            # partial sums as if they were made as they are needed
            partial = len(value.slots) + PARTIAL
            made = np.where(rows[:, None] == partial, columns, rows[:, None])
            count = made.shape[:2]
            source = moves.space.index(made.reshape(-1, made.shape[2])).reshape(count)
            source = np.where(source < 0, moves.space.index(rows)[:, None], source)
            problem = models.problem
            share = problem.microbatches * problem.calibration.exposed.activation
            cost = share * moves.forward_ns(source, moves.space.index(columns)[None, :])
            # or all that is sharded could be masked for nothing, to be reduced for nothing
            is_masked = ((columns == partial) & (rows[:, None] != partial)).any(axis=2)
            return np.where(is_masked, FORBIDDEN, cost)

        return replace(edge, cost=models.shared(("forward", id(edge.cost)), forward_ns))

    def relayout(self, edge: Edge) -> Relayout | None:
        """What an edge between a value and its readers moves; None for parameters."""
        root = self._root(edge)
        if root is None:
            return None
        value = self.lowered.models.values.value_of[root]
        ns = float(edge.cost[self.choice[edge.tail], self.choice[edge.head]])
        before, after = self._codes(value, edge.tail), self._codes(value, edge.head)
        return Relayout(root, (self._layout(value, before), self._layout(value, after)), ns)

    def _root(self, edge: Edge | Projection) -> str | None:
        return self.rest_of.get(edge.tail, self.read_of.get(edge.tail))

    def _codes(self, value: Value, node: int) -> Codes:
        row = self._states(value, node)[self.choice[node]]
        return tuple(int(code) for code in row)

    def _states(self, value: Value, node: int) -> IntArray:
        """What the states of a node mean for a value."""
        lowered = self.lowered
        if node in self.rest_of:
            return lowered.rest_states[value.root]
        if node in self.read_of:
            return lowered.read_states[value.root].layouts
        position = self.position_of[node]
        port = next(k for p, k in value.readers if p == position)
        return lowered.models.ops.model(position).required(lowered.op_choices[position], port)

    def _layout(self, value: Value, codes: Codes) -> Layout:
        return layout_of(self.lowered.models, value, codes, partial=len(value.slots) + 1)


def costliest(meeting: Meeting, edges: Sequence[int]) -> Relayout | None:
    """The re-layout that costs most on a way; None where none costs anything."""
    found = [
        own
        for k in edges
        if isinstance(edge := meeting.lowered.graph.edges[k], Edge)
        and (own := meeting.relayout(edge)) is not None
    ]
    worst = max(found, key=lambda own: own.ns, default=None)
    return worst if worst is not None and worst.ns > 0 else None
