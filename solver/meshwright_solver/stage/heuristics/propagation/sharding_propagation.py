"""Sharding propagation: the strategies of a few ops spread over the graph.

    seeds -> lowered cost graph -> settle op by op (meshwright_solver.stage.heuristics.propagation)
    -> a strategy for every op

A score counts the op's own time, the redistribution of all its inputs and outputs, forward and
backward, its parameters at their best, and the outlook on the neighbourhood. Connected parts of the
graph without a seed are settled twice, from their heaviest op and data parallel, and the cheaper
result is used. Memory has a price per byte: the caller that completes the strategies enforces the
limit, and repeats the propagation at a higher price if they do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from meshwright_solver.common.arrays import IntArray
from meshwright_solver.stage.heuristics.propagation.completion import completed
from meshwright_solver.stage.heuristics.propagation.components import component_costs, components
from meshwright_solver.stage.heuristics.propagation.inputs import (
    Propagation,
    PropagationProblem,
    Tied,
)
from meshwright_solver.stage.heuristics.propagation.lookahead import OPEN
from meshwright_solver.stage.heuristics.propagation.spread import Spread
from meshwright_solver.strategies.mesh_models import Models
from meshwright_solver.strategies.op_model import StrategyFilter

# chosen: the price of all of a device's memory, in steps; a folded graph has a part of both
PRICES = (0.1, 1.0, 10.0, 30.0)


def sharding_propagation(
    models: Models,
    seeds: Mapping[int, StrategyFilter],
    tied: Tied = (),
    allowed: Mapping[int, StrategyFilter] | None = None,
    ns_per_byte: float = 0.0,
) -> Propagation:
    """Spread the strategies of `seeds` (position of op -> those it may have) over all ops.

    Raises OutOfTime at the models' deadline.

    tied: positions of ops that must have one strategy (`tied_ops` of a folded graph). allowed:
    position of op -> strategies that it may have; these are no seeds. ns_per_byte: the price of
    memory on a device.
    """
    problem = PropagationProblem.of(models, seeds, allowed or {}, ns_per_byte)
    spread = problem.spread(tied)
    spread.run()
    notes = _settle_unreached(problem, spread)
    spread.refine()
    return problem.propagation(spread.state, notes)


def at_prices(
    propagate: Callable[[float], Propagation], memory_limit_bytes: float
) -> Iterator[Propagation]:
    """Propagations at increasing prices of memory, in ns per byte; each distinct one once."""
    first = propagate(0.0)
    yield first
    if first.is_given:
        return
    seen = [first.strategies]
    for price in PRICES:
        propagation = propagate(price * first.cost_ns / memory_limit_bytes)
        if not any(_same(propagation.strategies, strategies) for strategies in seen):
            seen.append(propagation.strategies)
            yield propagation


def _same(first: Mapping[int, IntArray], second: Mapping[int, IntArray]) -> bool:
    return all((row == second[position]).all() for position, row in first.items())


def _settle_unreached(problem: PropagationProblem, spread: Spread) -> list[str]:
    """Settle the ops that no seed reaches; the notes on their strategies."""
    position_of = {node: p for p, node in problem.lowered.op_node.items()}
    spread.fix({n: 0 for n in spread.ops if len(problem.graph.nodes[n].cost) == 1})
    unsettled = [node for node in spread.ops if spread.state[node] == OPEN]
    if not unsettled:
        return []
    labels = components(problem.graph)
    heaviest: dict[int, int] = {}
    for node in unsettled:
        known = heaviest.setdefault(int(labels[node]), node)
        if spread.weights[node] > spread.weights[known]:
            heaviest[int(labels[node])] = node
    before = spread.state.copy()
    spread.spread(heaviest.values())
    grown = completed(problem.graph, spread.state)
    spread.state[:] = before
    spread.fix(problem.data_parallel([position_of[node] for node in unsettled]))
    for node in unsettled:
        spread.settle(node)
    parallel = completed(problem.graph, spread.state)
    costs = [component_costs(problem.graph, labels, choice) for choice in (grown, parallel)]
    notes = []
    for label, node in heaviest.items():
        count = sum(int(labels[op]) == label for op in unsettled)
        is_grown = costs[0][label] < costs[1][label]
        better = grown if is_grown else parallel
        spread.fix({op: int(better[op]) for op in unsettled if labels[op] == label})
        name = problem.graph.nodes[node].name
        how = f"grown from its heaviest op {name!r}" if is_grown else "data parallel at first"
        notes.append(
            f"no strategy was given for any of the {count} ops connected with {name!r}: they are "
            f"{how} ({costs[0][label] / 1e6:.3g} ms grown, {costs[1][label] / 1e6:.3g} ms data "
            "parallel, as propagation sees it)"
        )
    return notes
