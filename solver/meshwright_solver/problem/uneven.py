"""Sizes that axes do not divide: which may be cut all the same, and over what span.

Slots and parts that are one index form a *class*. On a mesh every class has one span: its size
rounded up to a multiple of M, the largest product of axis sizes for which the span is at most
MOST_STRETCH times the size. Axes cut the span into equal chunks, of which the last are short or
empty. One span for a class, not one for a layout: then a gather over some of its axes gives the
very chunks of every other layout.

Arithmetic never sees what lies between size and span: a device computes on the valid part of its
chunk. A setup that pads only fills up what is stored and sent, so that all devices hold and send
the same shape.

What has to divide as before: classes with a halo, with segments, or with extents that differ inside
one factor (strides, followers of another length).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import prod
from typing import Literal

from meshwright_solver.common.union_find import Classes
from meshwright_solver.problem.op_info import OpInfo, TensorInfo

MOST_STRETCH = 1.125  # chosen: at most a ninth of the fullest device's share is padding

SlotKey = tuple[str, int]  # tensor, slot
PartKey = tuple[int, int]  # position of the op, part
Key = SlotKey | PartKey
Mode = Literal["refuse", "chunk", "pad"]


def index_classes(ops: Sequence[OpInfo], tensors: Mapping[str, TensorInfo]) -> Classes[Key]:
    """The classes of a problem; halos and followers of another length join nothing."""
    classes: Classes[Key] = Classes()
    for position, op in enumerate(ops):
        if op.known is None:
            continue
        parsed = op.known.rule.parsed
        loose = parsed.halo | set(parsed.follows)
        led = set(parsed.follows.values())
        for port in (*op.inputs, *op.outputs):
            slots = tensors[port.tensor].slots
            for part, slot in port.slot_of.items():
                own = op.parts[part]
                if own.factor in loose or (own.factor in led and slots[slot].size != own.size):
                    continue
                if op.known.chunks and slot in tensors[port.tensor].chunks:
                    continue
                classes.join((position, part), (port.tensor, slot))
    return classes


@lru_cache(maxsize=4096)
def span_of(size: int, axis_sizes: tuple[int, ...]) -> int:
    """The span of a size on a mesh of these axes; `size` itself where it has none.

    50257 on 8 x 8 devices is cut over 50304 = 64 * 786.
    """
    for ways in sorted({prod(own) for own in product(*((1, s) for s in axis_sizes))}, reverse=True):
        span = -(-size // ways) * ways
        if span <= size * MOST_STRETCH:
            return span
    return size


@dataclass(frozen=True)
class Uneven:
    """Which slots and parts of a problem may be cut unevenly, with their sizes.

    mode: as in Setup. spans: of a problem that was scaled down, by slot and part, where `span_of`
    would not give what is left of the original's.
    """

    sizes: Mapping[Key, int] = field(default_factory=dict)
    mode: Mode = "refuse"
    spans: Mapping[Key, int] | None = None

    @property
    def is_any(self) -> bool:
        """Whether any slot or part may have a span."""
        return bool(self.sizes or self.spans)

    @property
    def padded(self) -> bool:
        """Whether what is stored and sent is filled up to equal shapes."""
        return self.mode == "pad"

    def has_spans(self, axis_sizes: tuple[int, ...]) -> bool:
        """Whether any slot or part has a span on a mesh of these axes."""
        return any(span_of(size, axis_sizes) > size for size in set(self.sizes.values()))

    def span(self, key: Key, axis_sizes: tuple[int, ...]) -> int | None:
        """The span of a slot or part on a mesh; None where it has none and axes have to divide."""
        if self.spans is not None:
            return self.spans.get(key)
        size = self.sizes.get(key)
        if size is None:
            return None
        span = span_of(size, axis_sizes)
        return None if span == size else span


def uneven_of(
    ops: Sequence[OpInfo],
    tensors: Mapping[str, TensorInfo],
    mode: Mode,
) -> Uneven:
    """What the setup's `uneven` allows in a problem of these ops."""
    if mode == "refuse":
        return Uneven()
    classes = index_classes(ops, tensors)
    whole = {
        classes.find((name, k))
        for name, info in tensors.items()
        for k, slot in enumerate(info.slots)
        if slot.dim in info.segments
    }
    sizes: dict[Key, int] = {}
    for position, op in enumerate(ops):
        halo = op.known.rule.parsed.halo if op.known is not None else frozenset()
        for j, part in enumerate(op.parts):
            sizes[position, j] = part.size
            if part.factor in halo:
                whole.add(classes.find((position, j)))
        for port in (*op.inputs, *op.outputs):
            slots = tensors[port.tensor].slots
            for j, slot in port.slot_of.items():
                if op.parts[j].factor in halo or op.parts[j].size != slots[slot].size:
                    whole |= {classes.find((position, j)), classes.find((port.tensor, slot))}
    for name, info in tensors.items():
        sizes.update({(name, k): slot.size for k, slot in enumerate(info.slots)})
    return Uneven(
        {key: size for key, size in sizes.items() if classes.find(key) not in whole},
        mode,
    )
