"""Owners: to which kept copy of which run the parts of a lowered folded problem belong."""

from __future__ import annotations

from typing import Any

from solver.folding import KEPT, MIDDLE, Folding
from solver.ledger import Share
from solver.lowering import Lowered

Owner = tuple[int, int]  # run, kept copy


class Owners:
    """To which kept copy of which run nodes, ops and values belong."""

    def __init__(self, folding: Folding, lowered: Lowered) -> None:
        self.lowered = lowered
        self.models = lowered.models
        self.runs = len(folding.runs)
        self.of_name: dict[str, Owner] = {}
        for number, run in enumerate(folding.runs):
            for kept in range(KEPT):
                copy = run.number(kept)
                for name in (*run.ops[copy], *run.tensors[copy]):
                    self.of_name[name] = (number, kept)
        self.of_node: list[Owner | None] = [None] * len(lowered.graph.nodes)
        problem = self.models.problem
        for position, node in lowered.op_node.items():
            self.of_node[node] = self.of_name.get(problem.ops[position].name)
        for nodes in (lowered.rest_node, lowered.read_node, lowered.parameter_node):
            for root, node in nodes.items():
                self.of_node[node] = self.of_name.get(root)

    def slots(self) -> list[list[list[int]]]:
        """Nodes by run and kept copy, in order."""
        found: list[list[list[int]]] = [[[] for _ in range(KEPT)] for _ in range(self.runs)]
        for node, owner in enumerate(self.of_node):
            if owner is not None:
                found[owner[0]][owner[1]].append(node)
        return found

    def states_of_node(self) -> dict[int, Any]:
        """What the states of a node mean, one object for all nodes of which they mean the same."""
        lowered = self.lowered
        found: dict[int, Any] = {}
        for position, node in lowered.op_node.items():
            found[node] = lowered.op_choices[position]
        for root, node in lowered.rest_node.items():
            found[node] = lowered.rest_states[root]
        for root, node in lowered.read_node.items():
            found[node] = lowered.read_states[root]
        for root, node in lowered.parameter_node.items():
            found[node] = self.models.parameter(self.models.values.value_of[root])
        return found

    def belongs(self, name: str, owner: Owner | None) -> bool:
        """Whether an op or tensor is a kept copy's; None: whether it is no middle copy's."""
        found = self.of_name.get(name)
        if owner is None:
            return found is None or found[1] != MIDDLE
        return found == owner

    def share(self, owner: Owner | None) -> Share:
        """What belongs to a kept copy; None: whatever belongs to no middle copy."""
        problem = self.models.problem
        return Share(
            tuple(p for p in self.lowered.op_node if self.belongs(problem.ops[p].name, owner)),
            tuple(value for value in self.models.values.values if self.belongs(value.root, owner)),
        )
