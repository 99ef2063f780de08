"""Sharding propagation: the strategies of a few ops spread over the graph.

    seeds -> lowered cost graph -> settle op by op (meshwright_solver.stage.heuristics.propagation)
    -> a strategy for every op

A score counts the op's own time, the redistribution of all it reads and makes, forward and
backward, its parameters at their best, and what the neighbourhood can make of it. Connected parts
of the graph without a seed are settled twice, from their heaviest op on and data parallel, and the
cheaper of the two stays. Memory is a price a byte: who completes the strategies keeps the limit,
and asks again at a higher price where it cannot be kept.
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

# chosen: what all of a device's memory costs, in steps; a folded graph has a part of both
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

    tied: positions of ops that have to have one strategy (`tied_ops` of a folded graph).
    allowed: position of op -> strategies that it may have, which are no seeds. ns_per_byte: the
    price of memory on a device.
    """
    given = PropagationProblem.of(models, seeds, allowed or {}, ns_per_byte)
    spread = given.spread(tied)
    spread.run()
    notes = _settle_unreached(given, spread)
    spread.refine()
    return given.propagation(spread.state, notes)


def at_prices(
    ask: Callable[[float], Propagation], memory_limit_bytes: float
) -> Iterator[Propagation]:
    """Answers of `ask` at higher and higher prices of memory, in ns per byte; each new one once."""
    found = ask(0.0)
    yield found
    if found.is_given:
        return
    seen = [found.strategies]
    for price in PRICES:
        again = ask(price * found.cost_ns / memory_limit_bytes)
        if not any(_same(again.strategies, own) for own in seen):
            seen.append(again.strategies)
            yield again


def _same(first: Mapping[int, IntArray], second: Mapping[int, IntArray]) -> bool:
    return all((row == second[position]).all() for position, row in first.items())


def _settle_unreached(given: PropagationProblem, spread: Spread) -> list[str]:
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
    spread.spread(heaviest.values())
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
        is_grown = costs[0][label] < costs[1][label]
        better = grown if is_grown else parallel
        spread.fix({own: int(better[own]) for own in left if labels[own] == label})
        name = given.graph.nodes[node].name
        how = f"grown from its heaviest op {name!r}" if is_grown else "data parallel at first"
        notes.append(
            f"no strategy was given for any of the {count} ops connected with {name!r}: they are "
            f"{how} ({costs[0][label] / 1e6:.3g} ms grown, {costs[1][label] / 1e6:.3g} ms data "
            "parallel, as propagation sees it)"
        )
    return notes
