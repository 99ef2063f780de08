"""Lifetimes that make no difference: where all memory is held at one time, it adds up as always."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solver.cost_graph import CostGraph


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
