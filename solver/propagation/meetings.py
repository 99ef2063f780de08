"""Where layouts meet: what the nodes of a lowered graph are, and the re-layouts between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from meshwright.schema import Layout
from solver.assignment import Codes, layout_of
from solver.cost_graph import Edge, IntArray
from solver.lowering import Lowered
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

    def relayout(self, edge: Edge) -> Relayout | None:
        """What an edge between a value and its readers moves; None for parameters."""
        root = self.rest_of.get(edge.tail, self.read_of.get(edge.tail))
        if root is None:
            return None
        value = self.lowered.models.values.value_of[root]
        ns = float(edge.cost[self.choice[edge.tail], self.choice[edge.head]])
        before, after = self._codes(value, edge.tail), self._codes(value, edge.head)
        return Relayout(root, (self._layout(value, before), self._layout(value, after)), ns)

    def _codes(self, value: Value, node: int) -> Codes:
        own, lowered = self.choice[node], self.lowered
        if node in self.rest_of:
            states = lowered.rest_states[value.root][own]
        elif node in self.read_of:
            states = lowered.read_states[value.root].layouts[own]
        else:
            position = self.position_of[node]
            row = lowered.op_choices[position][own][None, :]
            port = next(k for p, k in value.readers if p == position)
            states = lowered.models.ops.model(position).required(row, port)[0]
        return tuple(int(code) for code in np.asarray(states))

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
