"""Sharding propagation: the strategies of a few ops spread over the graph.

    seeds -> lowered cost graph -> settle op by op (solver.propagation) -> a strategy for every op

A score counts the op's own time, the redistribution of all it reads and makes, forward and
backward, its parameters at their best, and what the neighbourhood can make of it. Connected parts
of the graph without a seed are settled twice, from their heaviest op on and data parallel, and the
cheaper of the two stays. Memory is not looked at: who completes the strategies keeps the limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from solver.cost_graph import FORBIDDEN, CostGraph, FloatArray, IntArray, evaluate_choice
from solver.data_parallel import batch_parts, data_parallel
from solver.lowering import Lowered, Models, lower
from solver.pins import Allowed
from solver.propagation.completion import completed
from solver.propagation.components import component_costs, components
from solver.propagation.conflicts import Conflict, conflicts
from solver.propagation.meetings import Meeting
from solver.propagation.outlook import OPEN
from solver.propagation.repeats import repeated_notes
from solver.propagation.spread import Spread

Tied = Iterable[Collection[int]]


@dataclass(frozen=True, slots=True)
class Propagation:
    """A strategy (a row of OpModel codes) for every op by position, and what is to be said of it.

    cost_ns: of one step as propagation sees it, without a memory limit.
    """

    strategies: dict[int, IntArray]
    conflicts: tuple[Conflict, ...]
    notes: tuple[str, ...]
    cost_ns: float


def sharding_propagation(
    models: Models,
    seeds: Mapping[int, Allowed],
    tied: Tied = (),
    allowed: Mapping[int, Allowed] | None = None,
) -> Propagation:
    """Spread the strategies of `seeds` (position of op -> those it may have) over all ops.

    tied: positions of ops that have to have one strategy, where their models are the same.
    allowed: position of op -> strategies that it may have, which are no seeds.
    """
    given = Given.of(models, seeds, allowed or {})
    spread = given.spread(tied)
    spread.run()
    notes = _settle_unreached(given, spread)
    return given.propagation(spread.state, notes)


@dataclass(frozen=True, slots=True)
class Given:
    """A lowered problem and what is given of it, by op node: 0 for what may be, else FORBIDDEN."""

    lowered: Lowered
    masks: Mapping[int, FloatArray]
    graph: CostGraph

    @staticmethod
    def of(models: Models, seeds: Mapping[int, Allowed], allowed: Mapping[int, Allowed]) -> Given:
        lowered = lower(models, allowed, None)
        masks: dict[int, FloatArray] = {}
        nodes = list(lowered.graph.nodes)
        for position, keep in seeds.items():
            node = lowered.op_node[position]
            model, choices = models.ops.model(position), lowered.op_choices[position]
            kept = keep(model, choices)
            key = ("given op", id(choices), kept.tobytes())
            masks[node], cost = models.shared(
                key,
                lambda own=kept, n=node: _masked(own, nodes[n].cost),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            )
            nodes[node] = replace(nodes[node], cost=cost)
        return Given(lowered, masks, CostGraph(tuple(nodes), lowered.graph.edges))

    @property
    def models(self) -> Models:
        return self.lowered.models

    def spread(self, tied: Tied) -> Spread:
        nodes = self.lowered.op_node
        groups: dict[int, tuple[int, ...]] = {}
        for positions in tied:
            first = self.lowered.op_choices[min(positions)]
            own = [p for p in sorted(positions) if self.lowered.op_choices[p] is first]
            groups |= {nodes[p]: tuple(nodes[q] for q in own) for p in own}
        return Spread(
            self.graph,
            tuple(nodes.values()),
            {node: self._weight(position) for position, node in nodes.items()},
            groups,
            sorted(self.masks),
        )

    def propagation(self, settled: IntArray, notes: Iterable[str]) -> Propagation:
        choice = completed(self.graph, settled)
        lowered = self.lowered
        rows = {p: lowered.op_choices[p][choice[node]] for p, node in lowered.op_node.items()}
        return Propagation(
            rows,
            conflicts(lowered.graph, self.masks, Meeting(lowered, choice)),
            (*notes, *repeated_notes(self.models, rows)),
            evaluate_choice(lowered.graph, choice).cost_ns,
        )

    def data_parallel(self, positions: Collection[int]) -> dict[int, int]:
        """Op node -> the state in which it is data parallel; what cannot be is left out."""
        parts = batch_parts(self.models.problem)
        found = {}
        for position in positions:
            choices = self.lowered.op_choices[position]
            model = self.models.ops.model(position)
            kept = self.models.shared(
                ("data parallel", model, id(choices), parts[position]),
                lambda p=position, m=model, c=choices: data_parallel(parts[p])(m, c),  # type: ignore[misc]  # as above
            )
            if kept.any():
                found[self.lowered.op_node[position]] = int(np.argmax(kept))
        return found

    def _weight(self, position: int) -> float:
        """What an op costs in one step where every device does all of it."""
        models = self.models
        model = models.ops.model(position)
        whole = np.full((1, len(model.axis_sizes)), model.idle)
        return models.shared(("weight", model), lambda: float(models.op_cost_ns(model, whole)[0]))


def _masked(
    kept: np.ndarray[tuple[int], np.dtype[np.bool_]], cost: FloatArray
) -> tuple[FloatArray, FloatArray]:
    mask = np.where(kept, 0.0, FORBIDDEN)
    return mask, cost + mask


def _settle_unreached(given: Given, spread: Spread) -> list[str]:
    """Settle what no seed reaches; how it was done."""
    position_of = {node: p for p, node in given.lowered.op_node.items()}
    spread.fix({n: 0 for n in spread.ops if len(given.graph.nodes[n].cost) == 1})
    left = [node for node in spread.ops if spread.state[node] == OPEN]
    if not left:
        return []
    labels = components(given.graph)
    heaviest: dict[int, int] = {}
    for node in left:
        known = heaviest.setdefault(int(labels[node]), node)
        if spread.weights[node] > spread.weights[known]:
            heaviest[int(labels[node])] = node
    before = spread.state.copy()
    spread.spread((node, node) for node in heaviest.values())
    grown = completed(given.graph, spread.state)
    spread.state[:] = before
    spread.fix(given.data_parallel([position_of[node] for node in left]))
    for node in left:
        spread.settle(node)
    parallel = completed(given.graph, spread.state)
    costs = [component_costs(given.graph, labels, own) for own in (grown, parallel)]
    notes = []
    for label, node in heaviest.items():
        count = sum(int(labels[own]) == label for own in left)
        inside = labels == label
        is_grown = costs[0][label] < costs[1][label]
        spread.state[inside] = (grown if is_grown else parallel)[inside]
        name = given.graph.nodes[node].name
        how = f"grown from its heaviest op {name!r}" if is_grown else "data parallel"
        notes.append(
            f"no strategy was given for any of the {count} ops connected with {name!r}: they are "
            f"{how} ({costs[0][label] / 1e6:.3g} ms grown, {costs[1][label] / 1e6:.3g} ms data "
            "parallel, as propagation sees it)"
        )
    return notes
