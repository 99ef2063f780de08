"""Routes: who sends which box to whom, so that only what has to move moves.

    a, b      chunks of every dim on a source and on a target rank
    s(a, b)   product over the dims of the indices that the two share: the elements of a box
    moved     sum over target ranks r and source blocks a != own(r) of s(a, b(r))
              = needed - kept: source blocks are disjoint, so each element that r lacks comes once

A box comes from the nearest device that holds its block: one in the same unit of the fastest level
of the topology in which there is any. Equally near holders take turns, the largest boxes first.
Where several devices of one unit of the fastest level (of one node) need the same box from outside,
it comes in once: each gets a slice of it and passes that on to the others, in a second wave over
the fast links. Boxes are made for some source blocks at a time, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from meshwright.schema import LayoutError, TooLarge
from meshwright.schema.arrays import IntArray
from meshwright.schema.routing.cuts import Overlap, counted, overlap
from meshwright.schema.routing.holding import Holding

SLICE_BYTES = 2**16  # passed on by itself at least; chosen: about what a link carries in a latency
MAX_CELLS = 2**28  # source blocks times target ranks; chosen: 16,384 devices both, 10 s a tensor
CELLS = 2**21  # boxes, and turns of one, that are in hand at once; chosen: about 0.2 GB


@dataclass(frozen=True)
class Boxes:
    """Boxes, or slices of them, that move, one a row.

    block, target, elements: the source block, the target rank, how much. dim, low, high: which
    stretch of the box along a dim; the whole box where dim is -1. relay: in the second wave the
    target rank that passes it on, else -1. Else, first, holders: which of the block's holders are
    nearest, as a stretch of `Routes.senders`; position: which of them sends it in turn 0; in turn t
    it is the one t places further round.
    """

    block: IntArray
    target: IntArray
    elements: IntArray
    dim: IntArray
    low: IntArray
    high: IntArray
    relay: IntArray
    first: IntArray
    holders: IntArray
    position: IntArray


@dataclass(frozen=True)
class _Group:
    """Target ranks, side by side in `members`, that need equal boxes from outside their unit."""

    members: IntArray
    begin: IntArray
    size: IntArray
    block: IntArray
    elements: IntArray
    first: IntArray
    holders: IntArray


@dataclass(frozen=True, eq=False)
class Routes:
    """All boxes between two holdings.

    strides: devices in one unit of each level but the slowest, fastest first. slice_elements: the
    least that is passed on by itself. LayoutError where the shapes differ or the source is partial,
    TooLarge beyond MAX_CELLS.
    """

    source: Holding
    target: Holding
    strides: tuple[int, ...]
    slice_elements: int

    def __post_init__(self) -> None:
        if self.source.layout.shape != self.target.layout.shape:
            raise LayoutError(
                f"a tensor of the shape {list(self.source.layout.shape)} cannot become one of "
                f"{list(self.target.layout.shape)}"
            )
        if self.source.layout.partial:
            raise LayoutError(f"{self.source.layout} is partial; it is reduced before it is sent")
        cells = prod(self.source.ways) * len(self.target.site.devices)
        if cells > MAX_CELLS:
            raise TooLarge(
                f"a tensor in {prod(self.source.ways):,} blocks for "
                f"{len(self.target.site.devices):,} devices; the product is at most {MAX_CELLS:,}"
            )

    @cached_property
    def overlaps(self) -> tuple[Overlap, ...]:
        """What the chunks of every dim share."""
        one, other = self.source, self.target
        return tuple(
            overlap(*pair)
            for pair in zip(
                one.layout.dims, one.splits, other.layout.dims, other.splits, strict=True
            )
        )

    @cached_property
    def _holders(self) -> IntArray:
        """Source ranks by block, and by device among those of one block."""
        return np.lexsort((self.source.site.devices, self.source.blocks))

    @cached_property
    def senders(self) -> IntArray:
        """Devices of the source by block, and ascending among those of one block."""
        return self.source.site.devices[self._holders]

    @cached_property
    def own(self) -> IntArray:
        """(target ranks,) the source rank on the same device; -1 where there is none."""
        return self.source.site.rank_of(self.target.site.devices)

    @cached_property
    def kept(self) -> IntArray:
        """(target ranks,) the elements that are in place already."""
        here = np.flatnonzero((self.own >= 0) & ~self.target.neutral)
        found = np.zeros(len(self.own), dtype=np.int64)
        found[here] = 1
        for d, shared in enumerate(self.overlaps):
            of = self.source.chunks[self.own[here], d]
            found[here] *= shared.shared(of, self.target.chunks[here, d])
        return found

    def sources_of(self, rank: int) -> IntArray:
        """The source blocks of which a target rank needs something."""
        blocks = np.unique(self.source.blocks)
        if self.target.neutral[rank]:
            return blocks[:0]
        size = np.ones(len(blocks), dtype=np.int64)
        for d, shared in enumerate(self.overlaps):
            to = np.full(len(blocks), self.target.chunks[rank, d])
            size *= shared.shared(self.source.digit(blocks, d), to)
        return blocks[size > 0]

    def chunked(self, turns: int) -> Iterator[Boxes]:
        """All boxes, so many blocks at a time that CELLS holds for boxes times turns."""
        blocks = np.unique(self.source.blocks)
        replicas = -(-len(self.senders) // len(blocks))
        widest = max(min(turns, replicas), *self.strides[:1], 1)
        rows = max(1, CELLS // (len(self.own) * widest))
        for start in range(0, len(blocks), rows):
            yield self.boxes(blocks[start : start + rows])

    def boxes(self, blocks: IntArray) -> Boxes:
        """The boxes of some source blocks."""
        row, target, elements = self._needed(blocks)
        block = blocks[row]
        own = np.where(self.own >= 0, self.source.blocks[self.own], -1)
        moved = own[target] != block
        block, target, elements = block[moved], target[moved], elements[moved]
        first, holders, far = self._nearest(block, self.target.site.devices[target])
        near = ~far
        whole = np.zeros(int(near.sum()), dtype=np.int64)
        parts = [
            np.stack(
                [block[near], target[near], elements[near], whole - 1, whole, whole, whole - 1,
                 first[near], holders[near]]
            )
        ]  # fmt: skip
        if far.any():
            group = self._grouped(block[far], target[far], elements[far], first[far], holders[far])
            parts += self._relayed(group)
        made = np.concatenate(parts, axis=1)
        _, target, elements, _, low, _, relay, first, holders = made
        made = made[:, np.lexsort((low, target, -elements, holders, first, relay))]
        relay, first, holders = made[6:]
        position = np.where(relay < 0, _positions(first, holders), 0)
        return Boxes(*np.concatenate([made, position[None]]))

    def _grouped(
        self,
        block: IntArray,
        target: IntArray,
        elements: IntArray,
        first: IntArray,
        holders: IntArray,
    ) -> _Group:
        wanted = self.target.blocks[target]
        unit = self.target.site.devices[target] // (self.strides or (1,))[0]
        order = np.lexsort((target, unit, wanted, block))
        keys = np.stack([block, wanted, unit])[:, order]
        new = (np.diff(keys, axis=1) != 0).any(axis=0)
        begin = np.flatnonzero(np.concatenate(([True], new)))
        one = order[begin]
        return _Group(
            members=target[order],
            begin=begin,
            size=np.diff(begin, append=len(order)),
            block=block[one],
            elements=elements[one],
            first=first[one],
            holders=holders[one],
        )

    def _relayed(self, group: _Group) -> list[IntArray]:
        """Rows of both waves, as Boxes has them, without positions."""
        ranks = group.members[group.begin]
        extents = np.ones((len(ranks), len(self.overlaps) + 1), dtype=np.int64)
        for d, shared in enumerate(self.overlaps):
            of = self.source.digit(group.block, d)
            extents[:, d] = shared.shared(of, self.target.chunks[ranks, d])
        dim, extent = extents.argmax(axis=1), extents.max(axis=1)
        slices = np.minimum(group.size, np.maximum(1, group.elements // self.slice_elements))
        slices = np.minimum(slices, extent)

        g, k = counted(slices)
        low, high = extent[g] * k // slices[g], extent[g] * (k + 1) // slices[g]
        # the same whichever blocks are asked for, and not always the first
        member = (k + group.block[g] + self.target.blocks[ranks[g]]) % group.size[g]
        part = np.stack(
            [
                group.block[g],
                group.members[group.begin[g] + member],
                group.elements[g] // extent[g] * (high - low),
                np.where(slices[g] > 1, dim[g], -1),
                low,
                high,
                np.full(len(g), -1),
                group.first[g],
                group.holders[g],
            ]
        )
        row, k = counted(group.size[g] - 1)
        again = part[:, row]
        again[6] = again[1]
        again[1] = group.members[group.begin[g[row]] + (member[row] + 1 + k) % group.size[g[row]]]
        again[7:] = np.array([[0], [1]])
        return [part, again]

    def _needed(self, blocks: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Row, target rank and elements of every box that is not empty."""
        ranks = np.flatnonzero(~self.target.neutral)
        _, one, where = np.unique(self.target.blocks[ranks], return_index=True, return_inverse=True)
        row, group, elements = self._shared(blocks, ranks[one])
        by_group = ranks[np.argsort(where, kind="stable")]
        count = np.bincount(where, minlength=len(one))
        begin = np.cumsum(count) - count
        box, within = counted(count[group])
        return row[box], by_group[begin[group[box]] + within], elements[box]

    def _shared(self, blocks: IntArray, ranks: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Row, place in ranks and elements of every box that is not empty, in this order.

        Most pairs share nothing: dims are joined from the one that tells most apart.
        """
        dims = sorted(range(len(self.overlaps)), key=lambda d: self.overlaps[d].density)
        if not dims:
            row, place = counted(np.full(len(blocks), len(ranks)))
            return row, place, np.ones(len(row), dtype=np.int64)
        sides = [(self.source.digit(blocks, d), self.target.chunks[ranks, d]) for d in dims]
        row, place, elements = self.overlaps[dims[0]].joined(*sides[0])
        for d, (of, to) in zip(dims[1:], sides[1:], strict=True):
            elements = elements * self.overlaps[d].shared(of[row], to[place])
            kept = elements > 0
            row, place, elements = row[kept], place[kept], elements[kept]
        order = np.lexsort((place, row))
        return row[order], place[order], elements[order]

    def _nearest(
        self, block: IntArray, device: IntArray
    ) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
        """The stretch of `senders` from which each box may come, its length, and whether they lie
        outside the unit of the fastest level."""
        first = np.zeros(len(block), dtype=np.int64)
        holders = np.zeros(len(block), dtype=np.int64)
        held = self.source.blocks[self._holders]
        units = max(int(self.senders.max()), int(self.target.site.devices.max())) + 1
        open_ = np.arange(len(block))
        far = np.zeros(len(block), dtype=bool)
        for step, stride in enumerate((*self.strides, 0)):
            far[open_] = step > 0
            divide = stride or units
            keys = held * units + self.senders // divide
            wanted = block[open_] * units + device[open_] // divide
            low = np.searchsorted(keys, wanted, side="left")
            found = np.searchsorted(keys, wanted, side="right") - low
            first[open_], holders[open_] = low, found
            open_ = open_[found == 0]
            if not len(open_):
                break
        return first, holders, far


def slice_elements(element_bytes: int) -> int:
    """The least number of elements that is passed on by itself."""
    return max(1, SLICE_BYTES // element_bytes)


def _positions(first: IntArray, holders: IntArray) -> IntArray:
    """Which holder sends each box, of boxes in the order of their group of holders."""
    if not len(first):
        return first
    begins = np.flatnonzero(
        np.concatenate(([True], (first[1:] != first[:-1]) | (holders[1:] != holders[:-1])))
    )
    count = np.diff(begins, append=len(first))
    asked = np.repeat(count, count)
    order = np.arange(len(first)) - np.repeat(begins, count)
    return np.where(asked < holders, order * holders // asked, order % holders)
