"""Weighted graph: the folded cost graph with weights for the copies that a middle copy stands for.

A search over it makes one choice for all middle copies, without expanding them.
"""

from __future__ import annotations

import numpy as np

from meshwright_solver.common.arrays import FloatArray
from meshwright_solver.folding.fold import KEPT, MIDDLE, Folding
from meshwright_solver.folding.kept_copies import items_of
from meshwright_solver.lowering.lower import Lowered
from meshwright_solver.search.core.cost_graph import CostEdge, CostGraph, CostNode


class WeightedGraph:
    """Lowered folded graph. of_nodes, of_edges: weight of each node and edge."""

    def __init__(self, folding: Folding, lowered: Lowered) -> None:
        self.lowered = lowered
        graph = lowered.graph
        self.of_nodes = np.ones(len(graph.nodes))
        self.of_edges = np.ones(len(graph.edges))
        tails, heads = graph.ends
        items = items_of(lowered)
        for runs, owners in zip(folding.levels, folding.owners, strict=True):
            # by node: run and kept copy as one number, 0 for neither
            copy_ids = np.zeros(len(graph.nodes), dtype=np.int64)
            for node, item in enumerate(items):
                if item in owners:
                    number, kept_copy = owners[item]
                    copy_ids[node] = 1 + number * KEPT + kept_copy
            times = np.ones(1 + len(runs) * KEPT)
            times[1 + MIDDLE :: KEPT] = [run.stood_for for run in runs]
            self.of_nodes *= times[copy_ids]
            # an edge has the weight of the later of its ends
            self.of_edges *= times[np.maximum(copy_ids[tails], copy_ids[heads])]

    def graph(self, memory_limit_bytes: float) -> CostGraph:
        """Cost graph with weighted costs and memory."""
        graph = self.lowered.graph
        scaled: dict[tuple[int, float], FloatArray] = {}

        def times(table: FloatArray, weight: float) -> FloatArray:
            key = (id(table), weight)
            if key not in scaled:
                scaled[key] = table * weight
            return scaled[key]

        def memory(part: CostNode | CostEdge, weight: float) -> FloatArray | None:
            return None if part.memory is None else times(part.memory, weight)

        nodes = [
            CostNode(node.name, times(node.cost, weight), memory(node, weight))
            if weight > 1
            else node
            for node, weight in zip(graph.nodes, self.of_nodes.tolist(), strict=True)
        ]
        edges = [
            CostEdge(edge.tail, edge.head, times(edge.cost, weight), memory(edge, weight))
            if weight > 1 and isinstance(edge, CostEdge)
            else edge
            for edge, weight in zip(graph.edges, self.of_edges.tolist(), strict=True)
        ]
        return CostGraph(tuple(nodes), tuple(edges), memory_limit_bytes, spans=())
