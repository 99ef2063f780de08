"""Re-layouts between the nodes of a lowered graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from meshwright.schema import Layout
from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.evaluation.accounting.assignment import layout_of
from meshwright_solver.layouts.states import PARTIAL
from meshwright_solver.lowering.lower import Lowered
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.search.core.cost_graph import FORBIDDEN, CostEdge, Projection


@dataclass(frozen=True, slots=True)
class Relayout:
    """A tensor that goes from one layout to another, in ns of one step."""

    tensor: str
    layouts: tuple[Layout, Layout]
    ns: float


@dataclass(slots=True)
class Meeting:
    """A lowered graph, the state of every node, and the meaning of its nodes."""

    lowered: Lowered
    choice: IntArray
    position_of: dict[int, int] = field(init=False)
    rest_of: dict[int, str] = field(init=False)
    read_of: dict[int, str] = field(init=False)
    port_of: dict[int, int] = field(init=False)
    """Edge to an op -> the input at which it ends; several views of one value are as many edges."""

    def __post_init__(self) -> None:
        self.position_of = {node: p for p, node in self.lowered.op_node.items()}
        self.rest_of = {node: root for root, node in self.lowered.rest_node.items()}
        self.read_of = {node: root for root, node in self.lowered.read_node.items()}
        models = self.lowered.models.ops
        ports = {
            node: iter(
                [k for k, port in enumerate(models.model(p).inputs) if port.space is not None]
            )
            for node, p in self.position_of.items()
        }
        self.port_of = {
            k: next(ports[edge.head])
            for k, edge in enumerate(self.lowered.graph.edges)
            if edge.head in ports
        }

    def name(self, node: int) -> str:
        return self.lowered.graph.nodes[node].name

    def op_name(self, node: int) -> str | None:
        """The name of the op that a node represents; None for other nodes."""
        return self.name(node) if node in self.position_of else None

    def forward(self, k: int) -> CostEdge | Projection:
        """An edge with the forward redistribution alone, without reductions; parameters' as is."""
        edge = self.lowered.graph.edges[k]
        root = self._root(edge)
        if isinstance(edge, Projection) or root is None:
            return edge
        models = self.lowered.models
        value = models.values.value_of[root]

        def forward_ns() -> FloatArray:
            moves = models.redistributions(models.ops.space(root))
            rows, columns = self._states(value, k)
            # partial sums count as if they were produced in the needed layout
            partial = len(value.slots) + PARTIAL
            produced = np.where(rows[:, None] == partial, columns, rows[:, None])
            count = produced.shape[:2]
            source = moves.space.index(produced.reshape(-1, produced.shape[2])).reshape(count)
            source = np.where(source < 0, moves.space.index(rows)[:, None], source)
            problem = models.problem
            share = problem.microbatches * problem.exposed.activation
            cost = share * moves.forward_ns(source, moves.space.index(columns)[None, :])
            # otherwise every sharded value could be masked at no cost and reduced at no cost
            is_masked = ((columns == partial) & (rows[:, None] != partial)).any(axis=2)
            return np.where(is_masked, FORBIDDEN, cost)

        return replace(edge, cost=models.shared(("forward", id(edge.cost)), forward_ns))

    def moves(self, k: int) -> bool:
        """Whether a value moves forward along an edge, without reductions."""
        edge = self.forward(k)
        if isinstance(edge, Projection):
            return False
        ns = float(edge.cost[self.choice[edge.tail], self.choice[edge.head]])
        return 0 < ns < FORBIDDEN

    def relayout(self, k: int) -> Relayout | None:
        """The redistribution on an edge between a value and its readers; None for parameters."""
        edge = self.lowered.graph.edges[k]
        root = self._root(edge)
        if isinstance(edge, Projection) or root is None:
            return None
        value = self.lowered.models.values.value_of[root]
        rows, columns = self._states(value, k)
        row, column = self.choice[edge.tail], self.choice[edge.head]
        layouts = (self._layout(value, rows[row]), self._layout(value, columns[column]))
        return Relayout(root, layouts, float(edge.cost[row, column]))

    def _root(self, edge: CostEdge | Projection) -> str | None:
        return self.rest_of.get(edge.tail, self.read_of.get(edge.tail))

    def _states(self, value: ProblemValue, k: int) -> tuple[IntArray, IntArray]:
        """The layouts that the states of an edge's two ends mean for its value."""
        lowered, edge = self.lowered, self.lowered.graph.edges[k]
        read = lowered.read_states.get(value.root)
        if edge.head in self.read_of:
            assert read is not None
            return lowered.rest_states[value.root], read.layouts
        position = self.position_of[edge.head]
        model = lowered.models.ops.model(position)
        needed = model.required(lowered.op_choices[position], self.port_of[k])
        source = lowered.rest_states[value.root] if read is None else read.layouts
        return source, needed

    def _layout(self, value: ProblemValue, state: IntArray) -> Layout:
        codes = tuple(int(code) for code in state)
        return layout_of(self.lowered.models, value, codes, partial=len(value.slots) + 1)


def costliest(meeting: Meeting, edges: Sequence[int]) -> Relayout | None:
    """The costliest re-layout of those that move values forward; None where none does.

    A value that is whole before and after may still have its gradients reduced, which is no move.
    """
    relayouts = [
        relayout
        for k in edges
        if meeting.moves(k) and (relayout := meeting.relayout(k)) is not None
    ]
    return max(relayouts, key=lambda item: item.ns, default=None)
