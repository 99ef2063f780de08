"""Lifetimes that make no difference: where all memory is held at one time, it adds up as always."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meshwright_solver.search.core.cost_graph import CostGraph, CostGraphError


class LifetimesMatter(CostGraphError):
    """An engine that adds up all memory was given nodes that are live at different times."""


def always_live(graph: CostGraph, engine: str) -> CostGraph:
    """The graph without lifetimes, for an engine that has none. Raises LifetimesMatter
    where they make a difference."""
    found = without_lifetimes(graph)
    if found is None:
        raise LifetimesMatter(
            f"{engine} adds up the memory of all nodes, and here nodes are live at different "
            "times. Use an engine that knows lifetimes, lagrangian or exact"
        )
    return found


def without_lifetimes(graph: CostGraph) -> CostGraph | None:
    """The same costs and memories of every choice without lifetimes; None where they matter."""
    if graph.lifetimes is None:
        return graph
    starts, ends = graph.lifetimes[:, 0], graph.lifetimes[:, 1]
    takes = np.array([node.memory is not None for node in graph.nodes], dtype=np.bool_)
    lives = takes & (starts < ends)
    if lives.any() and starts[lives].max() >= ends[lives].min():
        return None
    nodes = tuple(
        node if lives[number] or node.memory is None else replace(node, memory=None)
        for number, node in enumerate(graph.nodes)
    )
    return replace(graph, nodes=nodes, lifetimes=None)
