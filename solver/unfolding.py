"""Unfolding: the cost graph of a whole graph from that of its folded one, and plans the way back.

The middle copy of a run is repeated as a node for every copy of the graph that it stands for. The
edges within a copy and to the copy before come with it. A plan is read back in *portions*: what
copies with equal choices have in common is written once, and renamed for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meshwright.schema import Padding, Stage
from meshwright.schema.collector import uncollected
from solver.assignment import Assignment, assignment_of_choice
from solver.cost_graph import CostGraph, Edge, Node, Projection
from solver.folding import KEPT, MIDDLE, Folding
from solver.ledger import Share
from solver.lowering import Lowered
from solver.owners import Owner, Owners
from solver.padding import paddings
from solver.read_states import ReadStates
from solver.renaming import renamed
from solver.states import IntArray

AnyEdge = Edge | Projection


class NotAlikeError(Exception):
    """The copies in the middle of a run differ in what they can do or cost."""


@dataclass(frozen=True, slots=True)
class Portion:
    """A share of a folded assignment that as many copies of a run have alike.

    run, copies: the middle copies of which it speaks; None and one for all that is no middle copy.
    """

    assignment: Assignment
    share: Share
    run: int | None = None
    copies: tuple[int, ...] = (0,)


class Unfolding:
    """A lowered folded problem and the cost graph of the whole one."""

    @uncollected
    def __init__(self, folding: Folding, lowered: Lowered) -> None:
        self.folding = folding
        self.lowered = lowered
        self._owners = Owners(folding, lowered)
        self._slots = self._owners.slots()
        self._check_alike()
        # of a node of the folded graph: its place in its copy
        self._index = {
            node: place for run in self._slots for own in run for place, node in enumerate(own)
        }
        # nodes of the whole graph: by run, copy and place, and by node that belongs to no run
        self._places: list[list[list[int]]] = [[[] for _ in run.ops] for run in folding.runs]
        self._alone: dict[int, int] = {}
        self._names: dict[tuple[int, int], dict[str, str]] = {}
        self.graph = self._unfolded() if folding.runs else lowered.graph

    def portions(self, choice: IntArray) -> list[Portion]:
        """What a choice of the whole graph means, in portions."""
        if not self.folding.runs:
            assignment = assignment_of_choice(self.lowered, choice)
            return [Portion(assignment, Share.all_of(self.lowered.models, assignment))]
        ends = self.ends(choice)
        assignment = assignment_of_choice(self.lowered, ends)
        found = [Portion(assignment, self._owners.share(None))]
        for number, run in enumerate(self.folding.runs):
            share = self._owners.share((number, MIDDLE))
            copies: dict[bytes, list[int]] = {}
            for copy in range(MIDDLE, run.copies - MIDDLE):
                key = self._states(choice, number, copy).tobytes()
                key += self._states(choice, number, copy + 1).tobytes()
                copies.setdefault(key, []).append(copy)
            for alike in copies.values():
                window = ends.copy()
                for kept in (MIDDLE, MIDDLE + 1):
                    states = self._states(choice, number, alike[0] + kept - MIDDLE)
                    window[self._slots[number][kept]] = states
                assignment = assignment_of_choice(self.lowered, window)
                found.append(Portion(assignment, share, number, tuple(alike)))
        return found

    def stage(self, portions: Sequence[Portion], stages: Sequence[Stage]) -> Stage:
        """The stage of the whole graph from those of its portions."""
        if not self.folding.runs:
            return stages[0]

        def joined(field: str, name: str = "tensor") -> tuple[Any, ...]:
            return self._joined(portions, [getattr(stage, field) for stage in stages], name)

        return stages[0].model_copy(
            update={
                "ops": joined("ops", "op"),
                "tensors": joined("tensors"),
                "parameters": joined("parameters"),
                "redistributions": joined("redistributions"),
            }
        )

    def paddings(self, portions: Sequence[Portion], stages: Sequence[Stage]) -> tuple[Padding, ...]:
        """What the plan fills up."""
        ends = stages[0]
        found = []
        for portion, stage in zip(portions, stages, strict=True):
            whole = stage
            if portion.run is not None:
                whole = stage.model_copy(
                    update={
                        "ops": (*ends.ops, *stage.ops),
                        "parameters": (*ends.parameters, *stage.parameters),
                    }
                )
            own = None if portion.run is None else (portion.run, MIDDLE)
            padded = paddings(self.lowered.models, whole)
            found.append([p for p in padded if self._owners.belongs(p.tensor, own)])
        return self._joined(portions, found, "tensor")

    def _joined(
        self, portions: Sequence[Portion], items: Sequence[Sequence[Any]], name: str
    ) -> tuple[Any, ...]:
        """Items in the order of the graph: middle copies before the last but one.

        name: the field that says to which copy an item belongs.
        """
        middle: dict[int, list[tuple[int, Sequence[Any]]]] = {}
        for portion, own in zip(portions, items, strict=True):
            if portion.run is not None:
                middle.setdefault(portion.run, []).extend((copy, own) for copy in portion.copies)
        found: list[Any] = []

        def add(number: int) -> None:
            for copy, own in sorted(middle.pop(number, ()), key=lambda pair: pair[0]):
                names = self._names_in(number, copy)
                found.extend([renamed(item, names) for item in own])

        for item in items[0]:
            owner = self._owners.of_name.get(getattr(item, name))
            if owner is not None and owner[1] > MIDDLE:
                add(owner[0])
            found.append(item)
        for number in list(middle):
            add(number)
        return tuple(found)

    def _names_in(self, number: int, copy: int) -> dict[str, str]:
        """What the middle copy and the next call their ops and tensors -> as copies of a run do."""
        found = self._names.get((number, copy))
        if found is None:
            run = self.folding.runs[number]
            found = {**run.renamed(MIDDLE + 1, copy + 1), **run.renamed(MIDDLE, copy)}
            self._names[number, copy] = found
        return found

    def _states(self, choice: IntArray, number: int, copy: int) -> IntArray:
        return choice[self._places[number][copy]]

    def ends(self, choice: IntArray) -> IntArray:
        """The choice of the folded graph that the copies it kept have."""
        states = np.empty(len(self.lowered.graph.nodes), dtype=np.int64)
        for node, owner in enumerate(self._owners.of_node):
            states[node] = choice[self._at(node, self._number(owner))]
        return states

    def choice_from(self, other: Unfolding, choice: IntArray) -> IntArray:
        """A choice of another lowering of the same problem, of which this one has all states."""
        mine, theirs = self._owners.states_of_node(), other._owners.states_of_node()
        found = np.empty(len(choice), dtype=np.int64)
        for node in range(len(self.lowered.graph.nodes)):
            places = self.places(node)
            found[places] = _positions(mine[node], theirs[node])[choice[places]]
        return found

    def places(self, node: int) -> list[int]:
        """The nodes of the whole graph that a node of the folded one stands for."""
        if not self.folding.runs:
            return [node]
        owner = self._owners.of_node[node]
        if owner is None:
            return [self._at(node, 0)]
        run = self.folding.runs[owner[0]]
        copies = [copy for copy in range(run.copies) if run.kept(copy) == owner[1]]
        return [self._at(node, copy) for copy in copies]

    def repeats(self) -> list[list[int]]:
        """Nodes of the whole graph that are one op or parameter in copies of a run.

        Copies at the ends are left out where they can choose among other states.
        """
        lowered, nodes = self.lowered, self.lowered.graph.nodes
        ops = lowered.models.problem.ops
        op_node = {ops[position].name: node for position, node in lowered.op_node.items()}
        found = []
        for run in self.folding.runs:
            for names, node_of in ((run.ops, op_node), (run.tensors, lowered.parameter_node)):
                kept = [[node_of.get(name) for name in names[run.number(c)]] for c in range(KEPT)]
                for k, middle in enumerate(kept[MIDDLE]):
                    if middle is None:
                        continue
                    of_copies = [(kept[run.kept(copy)][k], copy) for copy in range(run.copies)]
                    found.append(
                        [
                            self._at(node, copy)
                            for node, copy in of_copies
                            if node is not None and nodes[node].cost is nodes[middle].cost
                        ]
                    )
        return found

    def activation_edges(self) -> list[Edge]:
        """Edges of the whole graph on which values are redistributed; not those of parameters."""
        parameters = {*self.lowered.parameter_node.values()}
        tables = {
            id(edge.cost)
            for edge in self.lowered.graph.edges
            if isinstance(edge, Edge) and edge.tail not in parameters
        }
        return [
            edge for edge in self.graph.edges if isinstance(edge, Edge) and id(edge.cost) in tables
        ]

    def _check_alike(self) -> None:
        nodes = self.lowered.graph.nodes
        kind = self._owners.states_of_node()
        for slots in self._slots:
            first = slots[MIDDLE]
            for kept in (MIDDLE - 1, MIDDLE + 1):
                if len(slots[kept]) != len(first):
                    raise NotAlikeError
                for a, b in zip(first, slots[kept], strict=True):
                    same = nodes[a].cost is nodes[b].cost and nodes[a].memory is nodes[b].memory
                    if not same or kind[a] is not kind[b]:
                        raise NotAlikeError

    def _unfolded(self) -> CostGraph:
        folded = self.lowered.graph
        nodes: list[Node] = []
        spans: list[tuple[int, int, int]] = []
        done: set[int] = set()
        for node, owner in enumerate(self._owners.of_node):
            if owner is None:
                self._alone[node] = len(nodes)
                nodes.append(folded.nodes[node])
                continue
            number, kept = owner
            run, places = self.folding.runs[number], self._places[number]
            if kept > MIDDLE and number not in done:
                done.add(number)
                middle = [folded.nodes[inner] for inner in self._slots[number][MIDDLE]]
                for copy in range(MIDDLE + 1, run.copies - MIDDLE):
                    places[copy] += range(len(nodes), len(nodes) + len(middle))
                    nodes += middle
                # the copies at positions 1 and n - 2 are alike too
                start = places[MIDDLE][0] - len(middle)
                spans.append((start, len(middle) * (run.copies - 2), len(middle)))
            places[run.number(kept)].append(len(nodes))
            nodes.append(folded.nodes[node])
        edges = [moved for edge in folded.edges for moved in self._copies_of(edge)]
        return CostGraph(tuple(nodes), tuple(edges), folded.memory_limit_bytes, tuple(spans))

    def _copies_of(self, edge: AnyEdge) -> list[AnyEdge]:
        ends = [self._owners.of_node[edge.tail], self._owners.of_node[edge.head]]
        latest = max((owner for owner in ends if owner is not None), default=None)
        if latest is None:
            return [self._moved(edge, 0, 0)]
        number, kept = latest
        run = self.folding.runs[number]
        inside = [owner for owner in ends if owner is not None and owner[0] == number]
        if len(inside) < 2:
            if kept not in (0, KEPT - 1):
                raise NotAlikeError
            return [self._moved(edge, self._number(ends[0]), self._number(ends[1]))]
        back = [kept - own for _, own in inside]
        if max(back) > 1:
            raise NotAlikeError
        if kept != MIDDLE:
            copies = [run.number(kept) - b for b in back]
            return [self._moved(edge, copies[0], copies[1])]
        tail, head = self._index[edge.tail], self._index[edge.head]
        places = self._places[number]
        pairs = [
            (places[copy - back[0]][tail], places[copy - back[1]][head])
            for copy in range(MIDDLE, run.copies - MIDDLE)
        ]
        if isinstance(edge, Projection):
            return [Projection(a, b, edge.select) for a, b in pairs]
        return [Edge(a, b, edge.cost, edge.memory) for a, b in pairs]

    def _number(self, owner: Owner | None) -> int:
        return 0 if owner is None else self.folding.runs[owner[0]].number(owner[1])

    def _moved(self, edge: AnyEdge, tail_copy: int, head_copy: int) -> AnyEdge:
        tail = self._at(edge.tail, tail_copy)
        head = self._at(edge.head, head_copy)
        return replace(edge, tail=tail, head=head)

    def _at(self, node: int, copy: int) -> int:
        owner = self._owners.of_node[node]
        if owner is None:
            return self._alone[node]
        return self._places[owner[0]][copy][self._index[node]]


def _positions(mine: Any, theirs: Any) -> IntArray:
    """Where the states of one node are among those of the same node in another lowering."""
    if not isinstance(mine, np.ndarray):
        return np.arange(len(mine.layouts) if isinstance(mine, ReadStates) else len(mine.states))
    if mine is theirs:
        return np.arange(len(mine))
    known = {tuple(row): k for k, row in enumerate(mine.tolist())}
    return np.array([known[tuple(row)] for row in theirs.tolist()], dtype=np.int64)
