"""Routes: who sends which box to whom, so that only what has to move moves.

    a, b      chunks of every dim on a source and on a target rank
    s(a, b)   product over the dims of the indices that the two share: the elements of a box
    moved     sum over target ranks r and source blocks a != own(r) of s(a, b(r))
              = needed - kept: source blocks are disjoint, so each element that r lacks comes once

A box comes from the nearest device that holds its block: one in the same unit of the fastest level
of the topology in which there is any. Equally near holders take turns, the largest boxes first.
Boxes are made for some source blocks at a time, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meshwright.schema import LayoutError
from solver.states import IntArray
from solver.transfers.cuts import Overlap, overlap
from solver.transfers.holding import Holding

CELLS = 2**21  # boxes, and turns of one, that are in hand at once; chosen: about 0.2 GB


@dataclass(frozen=True)
class Boxes:
    """Boxes that move, one a row.

    block, target, elements: the source block, the target rank, how much. first, holders: which of
    the block's holders are nearest, as a stretch of `Routes.senders`. position: which of them sends
    it in turn 0; in turn t it is the one t places further round.
    """

    block: IntArray
    target: IntArray
    elements: IntArray
    first: IntArray
    holders: IntArray
    position: IntArray


@dataclass(frozen=True, eq=False)
class Routes:
    """All boxes between two holdings; strides: devices in one unit of each level, and all.

    LayoutError where the shapes differ or the source is partial.
    """

    source: Holding
    target: Holding
    strides: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.source.layout.shape != self.target.layout.shape:
            raise LayoutError(
                f"a tensor of the shape {list(self.source.layout.shape)} cannot become one of "
                f"{list(self.target.layout.shape)}"
            )
        if self.source.layout.partial:
            raise LayoutError(f"{self.source.layout} is partial; it is reduced before it is sent")

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
        rows = max(1, CELLS // (len(self.own) * min(turns, replicas)))
        for start in range(0, len(blocks), rows):
            yield self.boxes(blocks[start : start + rows])

    def boxes(self, blocks: IntArray) -> Boxes:
        """The boxes of some source blocks."""
        row, target, elements = self._needed(blocks)
        block = blocks[row]
        own = np.where(self.own >= 0, self.source.blocks[self.own], -1)
        moved = own[target] != block
        block, target, elements = block[moved], target[moved], elements[moved]
        first, holders = self._nearest(block, self.target.site.devices[target])
        order = np.lexsort((target, -elements, holders, first))
        block, target, elements = block[order], target[order], elements[order]
        first, holders = first[order], holders[order]
        return Boxes(block, target, elements, first, holders, _positions(first, holders))

    def _needed(self, blocks: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Row, target rank and elements of every box that is not empty."""
        ranks = np.flatnonzero(~self.target.neutral)
        _, one, where = np.unique(self.target.blocks[ranks], return_index=True, return_inverse=True)
        sizes = self._sizes(blocks, ranks[one])
        row, group = np.nonzero(sizes)
        elements = sizes[row, group]
        by_group = ranks[np.argsort(where, kind="stable")]
        count = np.bincount(where, minlength=len(one))
        begin = np.cumsum(count) - count
        box = np.repeat(np.arange(len(row)), count[group])
        within = np.arange(len(box)) - np.repeat(
            np.cumsum(count[group]) - count[group], count[group]
        )
        return row[box], by_group[begin[group[box]] + within], elements[box]

    def _sizes(self, blocks: IntArray, ranks: IntArray) -> IntArray:
        """(blocks, ranks) the elements of each box."""
        sizes = np.ones((len(blocks), len(ranks)), dtype=np.int64)
        for d, shared in enumerate(self.overlaps):
            of = self.source.digit(blocks, d)
            sizes *= shared.rows(of)[:, self.target.chunks[ranks, d]]
        return sizes

    def _nearest(self, block: IntArray, device: IntArray) -> tuple[IntArray, IntArray]:
        """The stretch of `senders` from which each box may come, and its length."""
        first = np.zeros(len(block), dtype=np.int64)
        holders = np.zeros(len(block), dtype=np.int64)
        held = self.source.blocks[self._holders]
        units = max(int(self.senders.max()), int(self.target.site.devices.max())) + 1
        open_ = np.arange(len(block))
        for stride in (*self.strides, 0):
            divide = stride or units
            keys = held * units + self.senders // divide
            wanted = block[open_] * units + device[open_] // divide
            low = np.searchsorted(keys, wanted, side="left")
            found = np.searchsorted(keys, wanted, side="right") - low
            first[open_], holders[open_] = low, found
            open_ = open_[found == 0]
            if not len(open_):
                break
        return first, holders


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
