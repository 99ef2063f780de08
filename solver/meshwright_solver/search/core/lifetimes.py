"""Lifetimes without effect: where all memory is held at one time, it adds up as without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meshwright_solver.search.core.cost_graph import CostGraph, CostGraphError


class LifetimesMatter(CostGraphError):
    """The engine adds up all memory, and the nodes are live at different times."""


def always_live(graph: CostGraph, engine: str) -> CostGraph:
    """The graph without lifetimes, for an engine that does not support them. Raises
    LifetimesMatter where they make a difference."""
    equivalent = without_lifetimes(graph)
    if equivalent is None:
        raise LifetimesMatter(
            f"{engine} adds up the memory of all nodes, but these nodes are live at different "
            "times. Use an engine that knows lifetimes, lagrangian or exact"
        )
    return equivalent


def without_lifetimes(graph: CostGraph) -> CostGraph | None:
    """An equivalent graph without lifetimes; None where they make a difference."""
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
