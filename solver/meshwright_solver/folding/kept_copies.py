"""Owners: to which kept copies of which runs the parts of a lowered folded problem belong."""

from __future__ import annotations

from typing import Any

from meshwright_solver.evaluation.accounting.ledger import AssignmentShare
from meshwright_solver.folding.fold import MIDDLE, Folding, Item
from meshwright_solver.lowering.lower import Lowered

# by level: the run of whose middle copy something is part, None where of none
Place = tuple[int | None, ...]


def items_of(lowered: Lowered) -> list[Item]:
    """What every node stands for: the op, or the tensor whose value it is."""
    ops = lowered.models.problem.ops
    items: list[Item] = [("", "")] * len(lowered.graph.nodes)
    for position, node in lowered.op_node.items():
        items[node] = ("op", ops[position].name)
    for nodes in (lowered.rest_node, lowered.read_node, lowered.parameter_node):
        for root, node in nodes.items():
            items[node] = ("tensor", root)
    return items


def states_of(lowered: Lowered) -> list[Any]:
    """What the states of every node mean, one object for all nodes of which they mean the same."""
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
    """Where in its runs every part of a folded problem is, level by level."""

    def __init__(self, folding: Folding) -> None:
        self.owners = folding.owners

    def of(self, item: Item) -> Place:
        """Of which runs' middle copies an item of the folded graph is part."""
        owned = [owners.get(item) for owners in self.owners]
        return tuple([owner[0] if owner and owner[1] == MIDDLE else None for owner in owned])

    def shares(self, lowered: Lowered) -> dict[Place, AssignmentShare]:
        """Ops and values by their place."""
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
