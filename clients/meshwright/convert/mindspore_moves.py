"""Redistributions for which MindSpore runs other collectives than the plan.

MindSpore infers collectives from the layouts on both sides:

- slices;
- an all-to-all, or an all-gather if that is disabled, for a dim whose axes move to another dim;
- all-gathers for the other axes.

MindSpore reduces partial sums first, directly after the op. A plan may choose other collectives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from meshwright.convert.mindspore_network import Otherwise
from meshwright.convert.mindspore_ops import can_scatter, scatter_layout
from meshwright.schema import Axis, Dim, Layout, Redistribution
from meshwright.stages.planned_stage import PlannedStage

_LOCAL = frozenset({"slice", "mask"})


def otherwise_of(planned: PlannedStage, *, all_to_all: str) -> Iterator[Otherwise]:
    """The tensors for which MindSpore runs other collectives than the plan.

    `all_to_all` is the collective that MindSpore runs in its place: `all_to_all` or `all_gather`.
    """
    producers = planned.graph.producers()
    casts = {op.name for op in planned.graph.ops if op.kind == "cast"}
    readers: dict[str, set[str]] = {}
    for op in planned.graph.ops:
        for name in op.inputs:
            readers.setdefault(name, set()).add(op.name)
    moves: dict[str, list[Redistribution]] = {}
    for move in planned.stage.redistributions:
        if move.traffic == "activation" and move.forward:
            moves.setdefault(move.tensor, []).append(move)
    for tensor in planned.tensors:
        rest = planned.at_rest(tensor)
        moves_of_tensor = moves.get(tensor, [])
        steps = [
            step.kind
            for move in moves_of_tensor
            for step in move.forward
            if step.kind not in _LOCAL
        ]
        collectives: list[str] = []
        reason = "MindSpore infers it from the layouts"
        if rest.partial:
            first = scatter_layout(tensor, planned)
            if first is not None and can_scatter(producers.get(tensor), rest, first):
                collectives, rest = ["reduce_scatter"], first
            else:
                collectives, rest = ["all_reduce"], rest.model_copy(update={"partial": {}})
                reason = (
                    "MindSpore reduces partial sums directly after the op, along rows or in full"
                )
        shared = planned.as_read(tensor)
        for move in moves_of_tensor:
            start = rest if move.op is None or shared is None else shared
            collectives += _inferred_collectives(start, move.forward[-1].to, all_to_all)
        if any(move.op in casts for move in moves_of_tensor) or (
            shared and readers[tensor] <= casts
        ):
            reason = "MindSpore gives a Cast the layout of its input, and redistributes after it"
        elif Counter(steps) == Counter(collectives):
            continue
        yield Otherwise(tensor=tensor, planned=tuple(steps), done=tuple(collectives), reason=reason)


def _inferred_collectives(before: Layout, after: Layout, all_to_all: str) -> list[str]:
    """The collectives between two layouts without partial sums, as MindSpore infers them."""
    old, new = ([_axes(dim) for dim in layout.dims] for layout in (before, after))
    collectives = []
    for dim, axes in enumerate(old):
        common = 0
        while common < min(len(axes), len(new[dim])) and axes[common] == new[dim][common]:
            common += 1
        gone = set(axes[common:])
        if gone:
            elsewhere = {axis for k, dim_axes in enumerate(new) if k != dim for axis in dim_axes}
            collectives.append(all_to_all if gone & elsewhere else "all_gather")
    return collectives


def _axes(dim: Dim) -> tuple[Axis, ...]:
    return tuple(axis for part in dim.parts for axis in part.axes)
