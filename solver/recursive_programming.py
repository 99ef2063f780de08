"""Recursive programming: one mesh axis after the other, from the slowest link to the fastest.

On one axis an op has about as many strategies as its rule has factors, so that a whole graph is
solved exactly in milliseconds (`dynamic_programming` on the cost graph of that axis, in which every
op competes at the weight it has). What an axis decides is kept; the next one divides what is left
of it on each group of devices (`solver.local_models`). Time is linear in axes and, folded, nearly
independent of the number of layers.

An axis may use as much memory as all axes inside it could divide by at the most. Where the
strategies then fit on no device, the axes are gone through again with less.

Not exact: no axis knows what the axes inside it could do. MindSpore's recursive programming (SAPP,
double recursive) halves ops greedily in the same order, by relative sizes and without a limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import Mesh
from solver.cost_graph import CostGraph, Edge
from solver.dynamic_programming import dynamic_programming
from solver.folding import MIDDLE, Folding
from solver.local_models import (
    Kept,
    LocalModels,
    Outer,
    kept_at_rest,
    ways_of_parts,
    ways_of_slots,
)
from solver.lowering import Lowered, Models, lower
from solver.op_model import OpModel
from solver.outcome import Budget
from solver.pins import Allowed
from solver.states import FloatArray, IntArray
from solver.unfolding import Owners

Strategies = dict[int, tuple[int, ...]]

# chosen: which power of the inner axes' sizes an axis may hope that they divide its memory by
HOPES = (1.0, 0.5, 0.0)
# chosen: an axis is solved to within this of its optimum; what lies inside it changes more
TOLERANCE = 1e-2


def recursive_programming(
    models: Models,
    folding: Folding,
    allowed: Mapping[int, Allowed],
    memory_limit_bytes: float,
) -> Iterator[Strategies]:
    """Strategies of all ops by position, one code an axis; those that hope for most memory first.

    models: of the folded graph on the mesh. allowed: what the strategies of some ops have to keep.
    Ends without a word where an axis finds no way to keep them or the memory.
    """
    found: list[Strategies] = []
    for hope in HOPES:
        own = _Run(models, folding, allowed, memory_limit_bytes, hope).strategies()
        if own is not None and own not in found:
            found.append(own)
            yield own


class _Run:
    def __init__(
        self,
        models: Models,
        folding: Folding,
        allowed: Mapping[int, Allowed],
        memory_limit_bytes: float,
        hope: float,
    ) -> None:
        self.models = models
        self.folding = folding
        self.limit = memory_limit_bytes
        self.hope = hope
        self.rows = {
            position: model.choices[keep(model, model.choices)]
            for position, keep in allowed.items()
            for model in [models.ops.model(position)]
        }
        self.codes: Strategies = {}

    def strategies(self) -> Strategies | None:
        outer = Outer()
        sizes = [axis.size for axis in self.models.mesh.axes]
        for k, axis in enumerate(self.models.mesh.axes):
            local = LocalModels(self.models, Mesh(axes=(axis,)), outer)
            limit = self.limit * prod(sizes[k + 1 :]) ** self.hope
            lowered = lower(local, self._allowed(k), limit)
            graph = _weighted(self.folding, lowered)
            outcome = dynamic_programming(graph, Budget(tolerance=TOLERANCE))
            if outcome.choice is None:
                return None
            outer = self._inner(lowered, outcome.choice, outer, axis.size)
        known: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}
        for position, codes in self.codes.items():
            model = self.models.ops.model(position)
            key = (id(model), codes)
            if key not in known:
                known[key] = _valid(model, codes)
            self.codes[position] = known[key]
        return self.codes

    def _allowed(self, k: int) -> dict[int, Allowed]:
        """What pins leave of the codes on axis k, given those on the axes before it."""
        found: dict[int, Allowed] = {}
        for position, rows in self.rows.items():
            before = np.array(self.codes.get(position, ()), dtype=np.int64)
            codes = np.unique(rows[(rows[:, :k] == before).all(axis=1), k])
            found[position] = _Keeps(codes)
        return found

    def _inner(self, lowered: Lowered, choice: IntArray, outer: Outer, size: int) -> Outer:
        """What the axes inside this one find. Kept copies that stand for others stay alike."""
        ops = lowered.models.ops
        values = self.models.values
        inner = Outer()
        code_of: dict[int, int] = {}
        for position, node in lowered.op_node.items():
            code_of[position] = int(lowered.op_choices[position][choice[node]][0])
        rest_of: dict[str, int] = {}
        for root, node in lowered.rest_node.items():
            rest_of[root] = int(lowered.rest_states[root][choice[node]][0])
        state_of = {root: int(choice[node]) for root, node in lowered.parameter_node.items()}
        self._make_alike(code_of, rest_of, state_of)
        for position, code in code_of.items():
            model = ops.model(position)
            inner.parts[position] = ways_of_parts(model, code, size, outer.parts.get(position))
            self.codes[position] = (*self.codes.get(position, ()), code)
        for root, code in rest_of.items():
            inner.slots[root] = ways_of_slots(ops.space(root), code, size, outer.slots.get(root))
        for root, index in state_of.items():
            value = values.value_of[root]
            reader, port = value.readers[0]
            row = np.array([[code_of[reader]]], dtype=np.int64)
            seen = int(ops.model(reader).required(row, port)[0, 0])
            parameter = lowered.models.parameter(value)
            kept = outer.kept.get(root, Kept())
            inner.kept[root] = kept_at_rest(parameter, parameter.states[index], seen, kept)
            inner.slots[root] = ways_of_slots(ops.space(root), seen, size, outer.slots.get(root))
        return inner

    def _make_alike(
        self, code_of: dict[int, int], rest_of: dict[str, int], state_of: dict[str, int]
    ) -> None:
        """The kept copies next to the middle one have to be like it (`solver.unfolding`)."""
        by_name = self.models.problem.position_of
        for run in self.folding.runs:
            for like, *names in run.alike():
                for name in names:
                    if like in by_name and by_name[like] in code_of:
                        code_of[by_name[name]] = code_of[by_name[like]]
                    for found in (rest_of, state_of):
                        if name in found and like in found:
                            found[name] = found[like]


def _valid(model: OpModel, codes: tuple[int, ...]) -> tuple[int, ...]:
    """A strategy of the whole mesh; where codes do not go together, inner axes are idle."""
    own = list(codes)
    for k in reversed(range(-1, len(own))):
        if model.is_valid(tuple(own)):
            break
        own[k] = model.idle
    return tuple(own)


class _Keeps:
    """Keeps the strategies of one axis that have one of the codes."""

    def __init__(self, codes: IntArray) -> None:
        self.codes = codes

    def __call__(self, _: OpModel, choices: IntArray) -> NDArray[np.bool_]:
        return np.isin(choices[:, 0], self.codes)


def _weighted(folding: Folding, lowered: Lowered) -> CostGraph:
    """The folded cost graph, in which the middle copy of a run weighs as all that it stands for."""
    graph = lowered.graph
    if not folding.runs:
        return graph
    owners = Owners(folding, lowered).of_node
    scaled: dict[tuple[int, int], FloatArray] = {}

    def times(table: FloatArray, weight: int) -> FloatArray:
        key = (id(table), weight)
        if key not in scaled:
            scaled[key] = table * weight
        return scaled[key]

    def weight(*nodes: int) -> int:
        latest = max((own for node in nodes if (own := owners[node]) is not None), default=None)
        if latest is None or latest[1] != MIDDLE:
            return 1
        return folding.runs[latest[0]].stood_for

    nodes = tuple(
        replace(
            node,
            cost=times(node.cost, own),
            memory=node.memory if node.memory is None else times(node.memory, own),
        )
        if (own := weight(k)) > 1
        else node
        for k, node in enumerate(graph.nodes)
    )
    edges = tuple(
        replace(
            edge,
            cost=times(edge.cost, own),
            memory=edge.memory if edge.memory is None else times(edge.memory, own),
        )
        if isinstance(edge, Edge) and (own := weight(edge.tail, edge.head)) > 1
        else edge
        for edge in graph.edges
    )
    return CostGraph(nodes, edges, graph.memory_limit_bytes, spans=())
