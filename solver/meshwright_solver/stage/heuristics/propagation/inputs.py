"""The input of propagation, a lowered problem with its seeds, and its result."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from meshwright_solver.common.arrays import FloatArray, IntArray
from meshwright_solver.constraints.batch_dims import batch_parts, data_parallel
from meshwright_solver.lowering.lower import Lowered, lower
from meshwright_solver.search.core.cost_graph import (
    FORBIDDEN,
    CostEdge,
    CostGraph,
    CostNode,
    Projection,
    evaluate_choice,
)
from meshwright_solver.stage.heuristics.propagation.completion import completed
from meshwright_solver.stage.heuristics.propagation.conflicts import Conflict, conflicts
from meshwright_solver.stage.heuristics.propagation.relayouts import Meeting
from meshwright_solver.stage.heuristics.propagation.repeated_work import repeated_notes
from meshwright_solver.stage.heuristics.propagation.spread import Spread
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import StrategyFilter

Tied = Iterable[Collection[int]]


@dataclass(frozen=True, slots=True)
class Propagation:
    """A strategy (a row of OpModel codes) for every op by position, with conflicts and notes.

    cost_ns, memory_bytes: of one step as propagation computes them, without a limit. is_given: no
    op was free, whatever the price of memory.
    """

    strategies: dict[int, IntArray]
    conflicts: tuple[Conflict, ...]
    notes: tuple[str, ...]
    cost_ns: float
    memory_bytes: float
    is_given: bool = False


@dataclass(frozen=True, slots=True)
class PropagationProblem:
    """A lowered problem and its seeds.

    masks: by op node, 0 for allowed states, else FORBIDDEN. graph: with the masks, and with the
    price of memory as cost.
    """

    lowered: Lowered
    masks: Mapping[int, FloatArray]
    graph: CostGraph

    @staticmethod
    def of(
        models: Models,
        seeds: Mapping[int, StrategyFilter],
        allowed: Mapping[int, StrategyFilter],
        ns_per_byte: float,
    ) -> PropagationProblem:
        lowered = lower(models, allowed, None)
        masks: dict[int, FloatArray] = {}
        priced = _Priced(models, ns_per_byte)
        nodes = [replace(node, cost=priced.of(node)) for node in lowered.graph.nodes]
        edges = [
            edge if isinstance(edge, Projection) else replace(edge, cost=priced.of(edge))
            for edge in lowered.graph.edges
        ]
        for position, keep in seeds.items():
            node = lowered.op_node[position]
            flags = keep(models.ops.model(position), lowered.op_choices[position])
            cost = nodes[node].cost
            masks[node], masked = models.shared(
                ("given op", id(cost), flags.tobytes()),
                lambda k=flags, c=cost: _masked(k, c),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            )
            nodes[node] = replace(nodes[node], cost=masked)
        return PropagationProblem(lowered, masks, CostGraph(tuple(nodes), tuple(edges)))

    @property
    def models(self) -> Models:
        return self.lowered.models

    def spread(self, tied: Tied) -> Spread:
        nodes = self.lowered.op_node
        groups: dict[int, tuple[int, ...]] = {}
        choices = self.lowered.op_choices
        for positions in tied:
            planned = sorted(p for p in positions if p in choices)  # views have no strategy
            group = [p for p in planned if choices[p] is choices[planned[0]]]
            groups |= {nodes[p]: tuple(nodes[q] for q in group) for p in group}
        return Spread(
            self.graph,
            tuple(nodes.values()),
            {node: self._weight(position) for position, node in nodes.items()},
            groups,
            sorted(self.masks),
            self.models.deadline,
        )

    def propagation(
        self, settled: IntArray, notes: Iterable[str], *, is_given: bool = False
    ) -> Propagation:
        choice = completed(self.graph, settled)
        lowered = self.lowered
        cost = evaluate_choice(lowered.graph, choice)
        rows = {p: lowered.op_choices[p][choice[node]] for p, node in lowered.op_node.items()}
        return Propagation(
            rows,
            conflicts(self.masks, Meeting(lowered, choice)),
            (*notes, *repeated_notes(self.models, rows)),
            cost.cost_ns,
            cost.memory_bytes,
            is_given,
        )

    def data_parallel(self, positions: Collection[int]) -> dict[int, int]:
        """Op node -> its data-parallel state; nodes without one are omitted."""
        models = self.models
        parts = batch_parts(models.problem)
        states = {}
        for position in positions:
            choices = self.lowered.op_choices[position]
            model = models.ops.model(position)
            flags = models.shared(
                ("data parallel", id(choices), parts[position]),
                lambda m=model, c=choices, part=parts[position]: data_parallel(part)(m, c),  # type: ignore[misc]  # as above
            )
            if flags.any():
                states[self.lowered.op_node[position]] = int(np.argmax(flags))
        return states

    def _weight(self, position: int) -> float:
        """The cost of an op in one step if every device computes all of it."""
        models = self.models
        model = models.ops.model(position)

        def weight() -> float:
            whole = np.full((1, len(model.axis_sizes)), model.idle)
            return float(models.op_cost_ns(model, whole)[0])

        return models.shared(("weight", id(model)), weight)


@dataclass(frozen=True, slots=True)
class _Priced:
    """Costs with memory at a price; shared arrays stay shared."""

    models: Models
    ns_per_byte: float

    def of(self, item: CostNode | CostEdge) -> FloatArray:
        memory = item.memory
        if memory is None or not self.ns_per_byte:
            return item.cost
        key = ("priced", id(item.cost), id(memory), self.ns_per_byte)
        return self.models.shared(key, lambda: item.cost + self.ns_per_byte * memory)


def _masked(
    flags: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], cost: FloatArray
) -> tuple[FloatArray, FloatArray]:
    mask = np.where(flags, 0.0, FORBIDDEN)
    return mask, cost + mask
