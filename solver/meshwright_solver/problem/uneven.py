"""Uneven sharding: sizes that axes do not divide, and the spans over which axes cut them.

Slots and parts of the same index form a *class*. On a mesh every class has one span: its size
rounded up to a multiple of M, the largest product of axis sizes for which the span is at most
MOST_STRETCH times the size. Axes cut the span into equal chunks; the last chunks are short or
empty. The span belongs to the class and not to a layout, so that a gather over some axes gives
exactly the chunks of every coarser layout.

A device computes on the valid part of its chunk alone. With `pad`, stored and sent chunks are
padded, so that all devices hold and send the same shape.

Axes still have to divide classes with a halo, with segments, or with extents that differ inside one
factor (strides, followers of another length).
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
    """Classes of slots and parts of one index, without halos and followers of another length."""
    classes: Classes[Key] = Classes()
    for position, op in enumerate(ops):
        if op.known is None:
            continue
        parsed = op.known.rule.parsed
        loose = parsed.halo | set(parsed.follows)
        led = set(parsed.follows.values())
        for one, other in op.known.equal:
            parts, others = op.parts_of(one), op.parts_of(other)
            if len(parts) == len(others):
                for part, twin in zip(parts, others, strict=True):
                    classes.join((position, part), (position, twin))
        for port in (*op.inputs, *op.outputs):
            slots = tensors[port.tensor].slots
            for part, slot in port.slot_of.items():
                op_part = op.parts[part]
                if op_part.factor in loose or (
                    op_part.factor in led and slots[slot].size != op_part.size
                ):
                    continue
                if op.known.chunks and slot in tensors[port.tensor].chunks:
                    continue
                classes.join((position, part), (port.tensor, slot))
    return classes


@lru_cache(maxsize=4096)
def span_of(size: int, axis_sizes: tuple[int, ...]) -> int:
    """The span of a size on a mesh, or `size` without one.

    The span of 50257 on 8 x 8 devices is 50304 = 64 * 786.
    """
    for ways in sorted(
        {prod(sizes) for sizes in product(*((1, s) for s in axis_sizes))}, reverse=True
    ):
        span = -(-size // ways) * ways
        if span <= size * MOST_STRETCH:
            return span
    return size


@dataclass(frozen=True)
class Uneven:
    """Slots and parts of a problem that may be cut unevenly, with their sizes.

    mode: as in Setup. spans: by slot and part, of a scaled-down problem, where `span_of` would not
    give the scaled spans.
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
        """Whether stored and sent chunks are padded to equal shapes."""
        return self.mode == "pad"

    def has_spans(self, axis_sizes: tuple[int, ...]) -> bool:
        """Whether any slot or part has a span on a mesh of these axes."""
        return any(span_of(size, axis_sizes) > size for size in set(self.sizes.values()))

    def span(self, key: Key, axis_sizes: tuple[int, ...]) -> int | None:
        """The span of a slot or part on a mesh; None where axes have to divide its size."""
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
    """Slots and parts that the setup's `uneven` mode lets axes cut unevenly."""
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
