"""Reduction of the loss over the batch: a mean or a sum."""

from __future__ import annotations

from typing import Literal

from meshwright.schema import Graph, Op
from meshwright.schema.sizes import batch_dim

Reduction = Literal["mean", "sum"]
_LINEAR = frozenset({"cast", "reshape", "neg", "identity"})
_SCALED = frozenset({"mul", "div"})


def loss_reduction(graph: Graph) -> tuple[Reduction | None, frozenset[str]]:
    """Whether the loss is a mean or a sum over the batch; None for any other function of it.

    The second result are the tensors from the reduction over the batch to the loss.
    """
    parts: set[str] = set()
    producers = graph.producers()
    shapes = {tensor.name: tensor.shape for tensor in graph.tensors}

    def has_batch(name: str) -> bool:
        return batch_dim(shapes[name]) is not None

    def of(name: str) -> Reduction | None:
        op = producers.get(name)
        if op is None or has_batch(name):
            return None
        parts.add(name)
        reduced = [own for own in op.inputs if has_batch(own)]
        if reduced:
            return _of_op(op)
        if op.kind in _LINEAR and len(op.inputs) == 1:
            return of(op.inputs[0])
        if op.kind in _SCALED and _is_by_number(op):
            return of(op.inputs[0])
        if op.kind == "add" and len(op.inputs) == 2:
            both = {of(own) for own in op.inputs}
            return both.pop() if len(both) == 1 else None
        return None

    reduction = None if graph.loss is None else of(graph.loss)
    return reduction, frozenset(parts)


def _of_op(op: Op) -> Reduction | None:
    named = op.kind if op.kind in ("mean", "sum") else op.attrs.get("reduction")
    return "mean" if named == "mean" else "sum" if named == "sum" else None


def _is_by_number(op: Op) -> bool:
    """Whether an op scales its input by a number that does not depend on the batch."""
    numbers = [value for value in op.attrs.values() if isinstance(value, (int, float, str))]
    return len(op.inputs) == 1 and not any(
        isinstance(value, str) and "batch" in value for value in numbers
    )
