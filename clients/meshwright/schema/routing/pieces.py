"""Pieces: every send of a transfer, or those of one device, from its recipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from meshwright.schema.errors import NotFound
from meshwright.schema.routing.holding import Holding, Site
from meshwright.schema.routing.routes import Boxes, Routes, slice_elements
from meshwright.schema.routing.strides import strides
from meshwright.schema.transfer import (
    DeviceTransfer,
    Fill,
    Piece,
    Transfer,
    TransferState,
)


def device_transfer(document: Transfer, device: int) -> DeviceTransfer:
    """All that one device has to do; NotFound where no mesh of the transfer has it."""
    sites = _sites(document)
    if not any((site.devices == device).any() for site in sites):
        each = (f"{site.devices.min()} to {site.devices.max()}" for site in sites)
        raise NotFound(
            f"device {device} takes no part in this transfer; devices are counted from 0 in the "
            f"cluster, and its meshes lie on {' and '.join(dict.fromkeys(each))}"
        )
    return of_device(_recipes(document, sites), device)


def of_device(recipes: Iterable[Recipe], device: int) -> DeviceTransfer:
    """All that recipes have one device do; nothing where it is on none of their meshes."""
    sends: list[Piece] = []
    receives: list[Piece] = []
    keeps: list[Piece] = []
    fills: list[Fill] = []
    for recipe in recipes:
        source, target = recipe.rank_of(device)
        if source >= 0:
            sends += recipe.sent(source)
        if target >= 0:
            for piece in recipe.received(target):
                (sends if piece.source == device else receives).append(piece)
            keeps += recipe.kept(target)
            fills += recipe.filled(target)
    return DeviceTransfer(
        device=device,
        sends=tuple(sends),
        receives=tuple(receives),
        keeps=tuple(keeps),
        fills=tuple(fills),
    )


def all_sends(document: Transfer) -> Iterator[Piece]:
    """The sends of all devices; only for transfers of few."""
    for recipe in _recipes(document, _sites(document)):
        for boxes in recipe.routes.chunked(len(recipe.tensors)):
            for row in range(len(boxes.block)):
                yield from recipe.in_all_turns(boxes, row)


@dataclass(frozen=True)
class Recipe:
    """The routes of tensors that move alike; turn: see `TensorTransfer`."""

    tensors: tuple[str, ...]
    state: TransferState
    element_bytes: int
    routes: Routes
    turn: int = 0

    def rank_of(self, device: int) -> tuple[int, int]:
        """The source and the target rank on a device, -1 where there is none."""
        at = np.array([device])
        source, target = self.routes.source.site, self.routes.target.site
        return int(source.rank_of(at)[0]), int(target.rank_of(at)[0])

    def sent(self, rank: int) -> Iterator[Piece]:
        """What a source rank sends in the first wave."""
        device = int(self.routes.source.site.devices[rank])
        boxes = self.routes.boxes(self.routes.source.blocks[[rank]])
        offset = int(np.flatnonzero(self.routes.senders == device)[0]) - boxes.first
        may = (offset >= 0) & (offset < boxes.holders) & (boxes.relay < 0)
        for row in np.flatnonzero(may).tolist():
            holders = int(boxes.holders[row])
            # the first k with (position + turn + k) % holders == offset; then every holders-th
            k = int(offset[row] - boxes.position[row] - self.turn) % holders
            if k < len(self.tensors):
                yield self._in_turn(boxes, row, k)

    def received(self, rank: int) -> Iterator[Piece]:
        """What a target rank receives, and what it then passes on."""
        boxes = self.routes.boxes(self.routes.sources_of(rank))
        for row in np.flatnonzero((boxes.target == rank) | (boxes.relay == rank)).tolist():
            yield from self.in_all_turns(boxes, row)

    def kept(self, rank: int) -> Iterator[Piece]:
        """What a target rank holds already."""
        if self.routes.kept[rank]:
            device = int(self.routes.target.site.devices[rank])
            block = int(self.routes.source.blocks[self.routes.own[rank]])
            yield self._piece(self.tensors, device, (block, rank))

    def filled(self, rank: int) -> Iterator[Fill]:
        """What a target rank fills with the neutral element."""
        if self.routes.target.neutral[rank]:
            reductions = self.routes.target.layout.partial.values()
            yield Fill(
                tensors=self.tensors,
                state=self.state,
                value="lowest" if "max" in reductions else "zero",
            )

    def in_all_turns(self, boxes: Boxes, row: int) -> Iterator[Piece]:
        """The sends of one box, of some of the tensors each."""
        for k in range(min(int(boxes.holders[row]), len(self.tensors))):
            yield self._in_turn(boxes, row, k)

    def _in_turn(self, boxes: Boxes, row: int, k: int) -> Piece:
        """The send of the k-th tensor and of all that go with it."""
        holders, relay = int(boxes.holders[row]), int(boxes.relay[row])
        if relay >= 0:
            sender = int(self.routes.target.site.devices[relay])
        else:
            turn = (int(boxes.position[row]) + self.turn + k) % holders
            sender = int(self.routes.senders[int(boxes.first[row]) + turn])
        cut = (int(boxes.dim[row]), int(boxes.low[row]), int(boxes.high[row]))
        ends = int(boxes.block[row]), int(boxes.target[row])
        return self._piece(self.tensors[k::holders], sender, ends, cut, 1 + (relay >= 0))

    def _piece(
        self,
        names: tuple[str, ...],
        sender: int,
        ends: tuple[int, int],
        cut: tuple[int, int, int] = (-1, 0, 0),
        wave: int = 0,
    ) -> Piece:
        """ends: source block, target rank. cut: dim, low, high, as Boxes has them."""
        block, rank = ends
        dim, *stretch = cut
        dims = tuple(
            shared.stretches(
                chunk, int(self.routes.target.chunks[rank, d]), *(stretch if d == dim else ())
            )
            for d, (shared, chunk) in enumerate(
                zip(self.routes.overlaps, self.routes.source.chunks_of(block), strict=True)
            )
        )
        elements = prod(sum(run.length * run.count for run in box) for box in dims)
        return Piece(
            tensors=names,
            state=self.state,
            source=sender,
            target=int(self.routes.target.site.devices[rank]),
            wave=wave,
            dims=dims,
            bytes=elements * self.element_bytes,
        )


def _sites(document: Transfer) -> list[Site]:
    return [Site(place.mesh, np.array(place.ranks)) for place in document.places]


def _recipes(document: Transfer, sites: list[Site]) -> Iterator[Recipe]:
    units = strides([size for _, size in document.levels])
    for line in document.tensors:
        source = Holding.of(line.sent, sites[line.source_place])
        target = Holding.of(line.target, sites[line.target_place])
        routes = Routes(source, target, units, slice_elements(line.element_bytes))
        yield Recipe(line.tensors, line.state, line.element_bytes, routes, line.turn)
