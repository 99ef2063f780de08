"""Padding of a plan: dims of parameters and inputs that are stored longer than their size.

A parameter is as long as the longest of its layouts for value, gradient and optimizer state. An
input is sharded where the ops that read it have axes on its dims, over their common span.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from meshwright.schema import Axis, Layout, Padding, Stage
from meshwright_solver.problem.values import ProblemValue
from meshwright_solver.strategies.mesh_models import Models


def paddings(models: Models, stage: Stage) -> tuple[Padding, ...]:
    """Padding of all parameters and inputs, in the order of the tensors of the graph."""
    if not models.problem.uneven.padded:
        return ()
    spans: dict[str, dict[int, int]] = {}
    for planned in stage.parameters:
        for layout in (planned.value, planned.gradient, planned.optimizer):
            if layout is not None:
                spans.setdefault(planned.tensor, {}).update(_spans_in(layout))
    strategies = {planned.op: planned.strategy for planned in stage.ops}
    for value in models.values.values:
        role = models.problem.tensors[value.root].tensor.role
        if value.is_free and role in ("input", "label"):
            spans[value.root] = _spans_read(models, value, strategies)
    entries = []
    for name, info in models.problem.tensors.items():
        slot_spans = spans.get(name, {})
        for d, size in enumerate(info.shape):
            slots = [k for k, slot in enumerate(info.slots) if slot.dim == d]
            padded = prod(slot_spans.get(k, info.slots[k].size) for k in slots)
            if slots and padded > size and d not in info.segments:
                entries.append(Padding(tensor=name, dim=d, size=size, padded=padded))
    return tuple(entries)


def _spans_in(layout: Layout) -> dict[int, int]:
    """Spans of a layout, by slot."""
    parts = [part for dim in layout.dims for part in dim.parts if part.size > 1]
    return {k: part.span for k, part in enumerate(parts) if part.span is not None}


def _spans_read(
    models: Models, value: ProblemValue, strategies: Mapping[str, Mapping[str, tuple[Axis, ...]]]
) -> dict[int, int]:
    """Spans of an input by slot, for slots that a reader shards."""
    problem = models.problem
    sizes = models.ops.axis_sizes
    spans = {}
    for position, k in value.readers:
        op = problem.ops[position]
        port = op.inputs[k]
        for part, slot in port.slot_of.items():
            root_slot = value.slot_of[port.tensor][slot]
            span = problem.uneven.span((value.root, root_slot), sizes)
            if span is not None and strategies.get(op.name, {}).get(op.parts[part].name):
                spans[root_slot] = span
    return spans
