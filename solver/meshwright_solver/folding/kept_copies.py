"""Kept copies: the kept copy and run of each part of a lowered folded problem."""

from __future__ import annotations

from typing import Any

from meshwright_solver.evaluation.accounting.ledger import AssignmentShare
from meshwright_solver.folding.fold import MIDDLE, Folding, Item
from meshwright_solver.lowering.lower import Lowered

# by level: the run whose middle copy contains an item, or None
Place = tuple[int | None, ...]


def items_of(lowered: Lowered) -> list[Item]:
    """Item of every node: its op, or the tensor of its value."""
    ops = lowered.models.problem.ops
    items: list[Item] = [("", "")] * len(lowered.graph.nodes)
    for position, node in lowered.op_node.items():
        items[node] = ("op", ops[position].name)
    for nodes in (lowered.rest_node, lowered.read_node, lowered.parameter_node):
        for root, node in nodes.items():
            items[node] = ("tensor", root)
    return items


def states_of(lowered: Lowered) -> list[Any]:
    """States of every node; nodes with the same states share one object."""
    models = lowered.models
    states: list[Any] = [None] * len(lowered.graph.nodes)
    for position, node in lowered.op_node.items():
        states[node] = lowered.op_choices[position]
    for root, node in lowered.rest_node.items():
        states[node] = lowered.rest_states[root]
    for root, node in lowered.read_node.items():
        states[node] = lowered.read_states[root]
    for root, node in lowered.parameter_node.items():
        states[node] = models.parameter(models.values.value_of[root])
    return states


class RunPositions:
    """Position of every part of a folded problem in its runs, by level."""

    def __init__(self, folding: Folding) -> None:
        self.owners = folding.owners

    def of(self, item: Item) -> Place:
        """Runs, by level, whose middle copy contains an item of the folded graph."""
        owned = [owners.get(item) for owners in self.owners]
        return tuple([owner[0] if owner and owner[1] == MIDDLE else None for owner in owned])

    def shares(self, lowered: Lowered) -> dict[Place, AssignmentShare]:
        """Ops and values by place."""
        problem, values = lowered.models.problem, lowered.models.values.values
        ops: dict[Place, list[int]] = {}
        for position in lowered.op_node:
            ops.setdefault(self.of(("op", problem.ops[position].name)), []).append(position)
        values_at: dict[Place, list[Any]] = {}
        for value in values:
            values_at.setdefault(self.of(("tensor", value.root)), []).append(value)
        return {
            place: AssignmentShare(tuple(ops.get(place, ())), tuple(values_at.get(place, ())))
            for place in (*ops, *(place for place in values_at if place not in ops))
        }
