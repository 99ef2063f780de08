"""Transfer routes: the sends between source and target devices, with the least traffic.

    a, b      chunks of every dim on a source and on a target rank
    s(a, b)   product over the dims of the number of shared indices: the elements of a box
    moved     sum over target ranks r and source blocks a != own(r) of s(a, b(r))
              = needed - kept: source blocks are disjoint, so each missing element is sent once

The nearest device with the block sends a box: one in the same unit of the fastest possible level of
the topology. Holders at equal distance share the boxes, the largest boxes first. If several devices
of one unit of the fastest level (of one node) need the same box from outside, each receives a slice
and forwards it to the others in a second wave over the fast links. Boxes are computed for some
source blocks at a time to limit memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from meshwright.common.arrays import IntArray
from meshwright.schema import LayoutError, TooLarge
from meshwright.transfers.cuts import Overlap, counted, overlap
from meshwright.transfers.holding import PlacedTensor

SLICE_BYTES = 2**16  # of the smallest slice; chosen: about the bandwidth-delay product of a link
MAX_CELLS = 2**28  # source blocks times target ranks; chosen: 16,384 devices both, 10 s a tensor
CELLS = 2**21  # boxes times turns in memory at once; chosen: about 0.2 GB


@dataclass(frozen=True)
class Boxes:
    """Boxes, or slices of boxes, that move. Every array has the shape (boxes,).

    block, target     the source block and the target rank
    elements          the number of elements
    dim, low, high    the slice of the box along a dim; the whole box if dim is -1
    relay             the target rank that forwards the box in the second wave, otherwise -1
    first, holders    the nearest holders of the block, as a range of `Routes.senders`
    position          the holder that sends in turn 0; in turn t it is the holder t places later
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
    """Groups of target ranks that need equal boxes from outside their unit.

    The ranks of a group are contiguous in `members`. All other arrays have the shape (groups,).
    """

    members: IntArray
    begin: IntArray
    size: IntArray
    block: IntArray
    elements: IntArray
    first: IntArray
    holders: IntArray


@dataclass(frozen=True, eq=False)
class Routes:
    """All boxes between two placed tensors.

    `strides` are the numbers of devices in one unit of each level but the slowest, fastest first.
    `slice_elements` is the size of the smallest slice. The constructor raises LayoutError if the
    shapes differ or the source is partial, and TooLarge above MAX_CELLS.
    """

    source: PlacedTensor
    target: PlacedTensor
    strides: tuple[int, ...]
    slice_elements: int

    def __post_init__(self) -> None:
        if self.source.layout.shape != self.target.layout.shape:
            raise LayoutError(
                f"the source has the shape {list(self.source.layout.shape)}, the target "
                f"{list(self.target.layout.shape)}"
            )
        if self.source.layout.partial:
            raise LayoutError(f"{self.source.layout} is partial. Reduce it before the transfer")
        cells = prod(self.source.ways) * len(self.target.site.devices)
        if cells > MAX_CELLS:
            raise TooLarge(
                f"a tensor has {prod(self.source.ways):,} blocks and "
                f"{len(self.target.site.devices):,} target devices. Use a product of at most "
                f"{MAX_CELLS:,}"
            )

    @cached_property
    def overlaps(self) -> tuple[Overlap, ...]:
        """The overlap of the source and target chunks of every dim."""
        source, target = self.source, self.target
        return tuple(
            overlap(*pair)
            for pair in zip(
                source.layout.dims, source.splits, target.layout.dims, target.splits, strict=True
            )
        )

    @cached_property
    def _holders(self) -> IntArray:
        """(source ranks,) The source ranks by block, then by device."""
        return np.lexsort((self.source.site.devices, self.source.blocks))

    @cached_property
    def senders(self) -> IntArray:
        """(source ranks,) The devices of the source by block, then ascending."""
        return self.source.site.devices[self._holders]

    @cached_property
    def own(self) -> IntArray:
        """(target ranks,) The source rank on the same device; -1 if there is none."""
        return self.source.site.rank_of(self.target.site.devices)

    @cached_property
    def kept(self) -> IntArray:
        """(target ranks,) The number of elements that are already in place."""
        ranks = np.flatnonzero((self.own >= 0) & ~self.target.neutral)
        elements = np.zeros(len(self.own), dtype=np.int64)
        elements[ranks] = 1
        for d, dim_overlap in enumerate(self.overlaps):
            of = self.source.chunks[self.own[ranks], d]
            elements[ranks] *= dim_overlap.shared(of, self.target.chunks[ranks, d])
        return elements

    def sources_of(self, rank: int) -> IntArray:
        """The source blocks that share elements with the block of a target rank."""
        blocks = np.unique(self.source.blocks)
        if self.target.neutral[rank]:
            return blocks[:0]
        size = np.ones(len(blocks), dtype=np.int64)
        for d, dim_overlap in enumerate(self.overlaps):
            to = np.full(len(blocks), self.target.chunks[rank, d])
            size *= dim_overlap.shared(self.source.digit(blocks, d), to)
        return blocks[size > 0]

    def chunked(self, turns: int) -> Iterator[Boxes]:
        """All boxes, in chunks of at most CELLS boxes times turns."""
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
        local = np.where(self.own >= 0, self.source.blocks[self.own], -1)
        moved = local[target] != block
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
            group = self._group(block[far], target[far], elements[far], first[far], holders[far])
            parts += self._relay_rows(group)
        columns = np.concatenate(parts, axis=1)
        _, target, elements, _, low, _, relay, first, holders = columns
        columns = columns[:, np.lexsort((low, target, -elements, holders, first, relay))]
        relay, first, holders = columns[6:]
        position = np.where(relay < 0, _positions(first, holders), 0)
        return Boxes(*np.concatenate([columns, position[None]]))

    def _group(
        self,
        block: IntArray,
        target: IntArray,
        elements: IntArray,
        first: IntArray,
        holders: IntArray,
    ) -> _Group:
        target_block = self.target.blocks[target]
        unit = self.target.site.devices[target] // (self.strides or (1,))[0]
        order = np.lexsort((target, unit, target_block, block))
        keys = np.stack([block, target_block, unit])[:, order]
        new = (np.diff(keys, axis=1) != 0).any(axis=0)
        begin = np.flatnonzero(np.concatenate(([True], new)))
        leader = order[begin]
        return _Group(
            members=target[order],
            begin=begin,
            size=np.diff(begin, append=len(order)),
            block=block[leader],
            elements=elements[leader],
            first=first[leader],
            holders=holders[leader],
        )

    def _relay_rows(self, group: _Group) -> list[IntArray]:
        """The rows of both waves in the order of the fields of `Boxes`, without positions."""
        ranks = group.members[group.begin]
        extents = np.ones((len(ranks), len(self.overlaps) + 1), dtype=np.int64)
        for d, dim_overlap in enumerate(self.overlaps):
            of = self.source.digit(group.block, d)
            extents[:, d] = dim_overlap.shared(of, self.target.chunks[ranks, d])
        dim, extent = extents.argmax(axis=1), extents.max(axis=1)
        slices = np.minimum(group.size, np.maximum(1, group.elements // self.slice_elements))
        slices = np.minimum(slices, extent)

        g, k = counted(slices)
        low, high = extent[g] * k // slices[g], extent[g] * (k + 1) // slices[g]
        # independent of the blocks in the argument, and not always the first member
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
        relay = part[:, row]
        relay[6] = relay[1]
        relay[1] = group.members[group.begin[g[row]] + (member[row] + 1 + k) % group.size[g[row]]]
        relay[7:] = np.array([[0], [1]])
        return [part, relay]

    def _needed(self, blocks: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The row, target rank and number of elements of every box that is not empty."""
        ranks = np.flatnonzero(~self.target.neutral)
        _, index, where = np.unique(
            self.target.blocks[ranks], return_index=True, return_inverse=True
        )
        row, group, elements = self._shared(blocks, ranks[index])
        by_group = ranks[np.argsort(where, kind="stable")]
        count = np.bincount(where, minlength=len(index))
        begin = np.cumsum(count) - count
        box, within = counted(count[group])
        return row[box], by_group[begin[group[box]] + within], elements[box]

    def _shared(self, blocks: IntArray, ranks: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """The row, index in ranks and number of elements of every box that is not empty.

        The result is sorted by row, then by index. The join begins with the dim of lowest density,
        because most pairs share nothing.
        """
        dims = sorted(range(len(self.overlaps)), key=lambda d: self.overlaps[d].density)
        if not dims:
            row, place = counted(np.full(len(blocks), len(ranks)))
            return row, place, np.ones(len(row), dtype=np.int64)
        sides = [(self.source.digit(blocks, d), self.target.chunks[ranks, d]) for d in dims]
        row, place, elements = self.overlaps[dims[0]].joined(*sides[0])
        for d, (of, to) in zip(dims[1:], sides[1:], strict=True):
            elements = elements * self.overlaps[d].shared(of[row], to[place])
            nonempty = elements > 0
            row, place, elements = row[nonempty], place[nonempty], elements[nonempty]
        order = np.lexsort((place, row))
        return row[order], place[order], elements[order]

    def _nearest(
        self, block: IntArray, device: IntArray
    ) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
        """The range of `senders` that may send each box.

        Returns the starts and lengths of the ranges, and whether the senders are outside the unit
        of the fastest level. Each has the shape (boxes,).
        """
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
            queries = block[open_] * units + device[open_] // divide
            low = np.searchsorted(keys, queries, side="left")
            count = np.searchsorted(keys, queries, side="right") - low
            first[open_], holders[open_] = low, count
            open_ = open_[count == 0]
            if not len(open_):
                break
        return first, holders, far


def slice_elements(element_bytes: int) -> int:
    """The number of elements of the smallest slice."""
    return max(1, SLICE_BYTES // element_bytes)


def _positions(first: IntArray, holders: IntArray) -> IntArray:
    """(boxes,) The holder that sends each box, for boxes sorted by their group of holders."""
    if not len(first):
        return first
    begins = np.flatnonzero(
        np.concatenate(([True], (first[1:] != first[:-1]) | (holders[1:] != holders[:-1])))
    )
    count = np.diff(begins, append=len(first))
    group_size = np.repeat(count, count)
    order = np.arange(len(first)) - np.repeat(begins, count)
    return np.where(group_size < holders, order * holders // group_size, order % holders)
