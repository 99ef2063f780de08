"""Where MindSpore's redistributions are other collectives than the plan's.

MindSpore infers them from the layouts on both sides: slices, an all-to-all (or an all-gather, where
that is switched off) for a dim whose axes go to another one, all-gathers for the rest; what is
partial it reduces first, right behind the op. A plan may know better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from meshwright.convert.mindspore_network import Otherwise
from meshwright.convert.mindspore_ops import is_told, scattered
from meshwright.runtime.stage import PlannedStage
from meshwright.schema import Axis, Dim, Layout, Redistribution

_LOCAL = frozenset({"slice", "mask"})


def otherwise_of(planned: PlannedStage, *, all_to_all: str) -> Iterator[Otherwise]:
    """What MindSpore does in its own way; all_to_all: what it makes of one, `all_to_all` or
    `all_gather`.
    """
    producers = planned.graph.producers()
    casts = {op.name for op in planned.graph.ops if op.kind == "cast"}
    readers: dict[str, set[str]] = {}
    for op in planned.graph.ops:
        for name in op.inputs:
            readers.setdefault(name, set()).add(op.name)
    moved: dict[str, list[Redistribution]] = {}
    for own in planned.stage.redistributions:
        if own.traffic == "activation" and own.forward:
            moved.setdefault(own.tensor, []).append(own)
    for tensor in planned.tensors:
        rest = planned.at_rest(tensor)
        ways = moved.get(tensor, [])
        steps = [step.kind for way in ways for step in way.forward if step.kind not in _LOCAL]
        done: list[str] = []
        why = "MindSpore infers it from the layouts"
        if rest.partial:
            first = scattered(tensor, planned)
            if first is not None and is_told(producers.get(tensor), rest, first):
                done, rest = ["reduce_scatter"], first
            else:
                done, rest = ["all_reduce"], rest.model_copy(update={"partial": {}})
                why = "MindSpore reduces partial sums right behind the op, along rows or whole"
        shared = planned.as_read(tensor)
        for way in ways:
            start = rest if way.op is None or shared is None else shared
            done += _inferred(start, way.forward[-1].to, all_to_all)
        if any(way.op in casts for way in ways) or (shared and readers[tensor] <= casts):
            why = "MindSpore gives a Cast the layout of what it reads, and redistributes behind it"
        elif Counter(steps) == Counter(done):
            continue
        yield Otherwise(tensor=tensor, planned=tuple(steps), done=tuple(done), reason=why)


def _inferred(before: Layout, after: Layout, all_to_all: str) -> list[str]:
    """The collectives between two layouts without partial sums."""
    old, new = ([_axes(own) for own in layout.dims] for layout in (before, after))
    found = []
    for dim, axes in enumerate(old):
        kept = 0
        while kept < min(len(axes), len(new[dim])) and axes[kept] == new[dim][kept]:
            kept += 1
        gone = set(axes[kept:])
        if gone:
            elsewhere = {axis for k, own in enumerate(new) if k != dim for axis in own}
            found.append(all_to_all if gone & elsewhere else "all_gather")
    return found


def _axes(dim: Dim) -> tuple[Axis, ...]:
    return tuple(axis for part in dim.parts for axis in part.axes)
