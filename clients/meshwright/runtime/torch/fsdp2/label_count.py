"""Count of the labels that a loss averages over: those without the ignored value.

A mean over the labels of all ranks is no mean of the ranks' means where some have more labels than
others (padding, packed texts). Each rank's loss is weighted by its count.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from meshwright.capture.interpreter import results_of, run_of
from meshwright.schema import Graph, Op

T = torch.Tensor


class LabelCount:
    """The count of labels of one loss in the graph."""

    def __init__(self, graph: Graph, loss: Op) -> None:
        self._graph = graph
        self._target, self._ignored = loss.inputs[1], int(loss.attrs["ignore_index"])
        needed = {self._target}
        self._ops: list[Op] = []
        for op in reversed(graph.topological_order()):
            if not needed.isdisjoint(op.outputs):
                needed.update(op.inputs)
                self._ops.insert(0, op)
        made = {name for op in self._ops for name in op.outputs}
        self.inputs = tuple(name for name in needed if name not in made)
        self._dtypes = {tensor.name: tensor.dtype for tensor in graph.tensors}

    def of(self, values: Mapping[str, T], symbols: Mapping[str, int]) -> T:
        """The count in one microbatch of a rank; `symbols` are the sizes of its part."""
        tensors = {name: values[name] for name in self.inputs}
        shapes = self._graph.instantiate(symbols)
        for op in self._ops:
            run = run_of(
                op,
                [tensors[name] for name in op.inputs],
                shapes=[shapes[name] for name in op.outputs],
                dtypes=[self._dtypes[name] for name in op.outputs],
                sizes={**self._graph.symbols, **symbols},
                replaced={},
            )
            tensors.update(zip(op.outputs, results_of(run), strict=True))
        return (tensors[self._target] != self._ignored).sum()


def label_count(graph: Graph) -> LabelCount | None:
    """The count of labels of the graph's loss.

    None for a loss that is not one mean of a cross-entropy, or whose labels are computed from
    parameters.
    """
    producers = graph.producers()
    op = producers.get(graph.loss or "")
    while op is not None and op.kind in ("cast", "reshape", "mul", "div") and len(op.inputs) == 1:
        op = producers.get(op.inputs[0])
    if op is None or op.kind != "cross_entropy" or op.attrs.get("reduction") != "mean":
        return None
    found = LabelCount(graph, op)
    roles = {graph.tensor(name).role for name in found.inputs}
    return found if roles <= {"input", "label"} else None
