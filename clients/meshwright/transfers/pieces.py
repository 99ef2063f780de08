"""Pieces: all sends of a transfer, or those of one device, from its routes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from meshwright.schema.errors import NotFound
from meshwright.schema.transfer import DeviceTransfer, Fill, Piece, Transfer, TransferState
from meshwright.transfers.holding import PlacedMesh, PlacedTensor
from meshwright.transfers.routes import Boxes, Routes, slice_elements
from meshwright.transfers.strides import strides


def device_transfer(document: Transfer, device: int) -> DeviceTransfer:
    """The sends, receives, kept pieces and fills of one device.

    Raises NotFound if no mesh of the transfer has the device.
    """
    sites = _sites(document)
    if not any((site.devices == device).any() for site in sites):
        ranges = (f"{site.devices.min()} to {site.devices.max()}" for site in sites)
        raise NotFound(
            f"device {device} is not part of this transfer. Use a device number in the cluster: "
            f"{' and '.join(dict.fromkeys(ranges))}"
        )
    return of_device(_route_groups(document, sites), device)


def of_device(groups: Iterable[RouteGroup], device: int) -> DeviceTransfer:
    """The part of one device in some route groups; empty if it is on none of their meshes."""
    sends: list[Piece] = []
    receives: list[Piece] = []
    keeps: list[Piece] = []
    fills: list[Fill] = []
    for group in groups:
        source, target = group.rank_of(device)
        if source >= 0:
            sends += group.sent(source)
        if target >= 0:
            for piece in group.received(target):
                (sends if piece.source == device else receives).append(piece)
            keeps += group.kept(target)
            fills += group.filled(target)
    return DeviceTransfer(
        device=device,
        sends=tuple(sends),
        receives=tuple(receives),
        keeps=tuple(keeps),
        fills=tuple(fills),
    )


def all_sends(document: Transfer) -> Iterator[Piece]:
    """The sends of all devices. Use it only for transfers between few devices."""
    for group in _route_groups(document, _sites(document)):
        for boxes in group.routes.chunked(len(group.tensors)):
            for row in range(len(boxes.block)):
                yield from group.in_all_turns(boxes, row)


@dataclass(frozen=True)
class RouteGroup:
    """The routes of tensors with equal transfers. `turn` is that of `TensorTransfer`."""

    tensors: tuple[str, ...]
    state: TransferState
    element_bytes: int
    routes: Routes
    turn: int = 0

    def rank_of(self, device: int) -> tuple[int, int]:
        """The source and the target rank on a device; -1 if there is none."""
        devices = np.array([device])
        source, target = self.routes.source.site, self.routes.target.site
        return int(source.rank_of(devices)[0]), int(target.rank_of(devices)[0])

    def sent(self, rank: int) -> Iterator[Piece]:
        """The pieces that a source rank sends in the first wave."""
        device = int(self.routes.source.site.devices[rank])
        boxes = self.routes.boxes(self.routes.source.blocks[[rank]])
        offset = int(np.flatnonzero(self.routes.senders == device)[0]) - boxes.first
        may = (offset >= 0) & (offset < boxes.holders) & (boxes.relay < 0)
        for row in np.flatnonzero(may).tolist():
            holders = int(boxes.holders[row])
            # the first k with (position + turn + k) % holders == offset; then k + holders, ...
            k = int(offset[row] - boxes.position[row] - self.turn) % holders
            if k < len(self.tensors):
                yield self._in_turn(boxes, row, k)

    def received(self, rank: int) -> Iterator[Piece]:
        """The pieces that a target rank receives or forwards."""
        boxes = self.routes.boxes(self.routes.sources_of(rank))
        for row in np.flatnonzero((boxes.target == rank) | (boxes.relay == rank)).tolist():
            yield from self.in_all_turns(boxes, row)

    def kept(self, rank: int) -> Iterator[Piece]:
        """The piece that is already on a target rank, if any."""
        if self.routes.kept[rank]:
            device = int(self.routes.target.site.devices[rank])
            block = int(self.routes.source.blocks[self.routes.own[rank]])
            yield self._piece(self.tensors, device, (block, rank))

    def filled(self, rank: int) -> Iterator[Fill]:
        """The tensors that a target rank fills with the neutral element, if any."""
        if self.routes.target.neutral[rank]:
            reductions = self.routes.target.layout.partial.values()
            yield Fill(
                tensors=self.tensors,
                state=self.state,
                value="lowest" if "max" in reductions else "zero",
            )

    def in_all_turns(self, boxes: Boxes, row: int) -> Iterator[Piece]:
        """The sends of one box. Each has a part of the tensors."""
        for k in range(min(int(boxes.holders[row]), len(self.tensors))):
            yield self._in_turn(boxes, row, k)

    def _in_turn(self, boxes: Boxes, row: int, k: int) -> Piece:
        """The send of the k-th tensor and of all others of the same sender."""
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
        """A piece. `ends` is (source block, target rank), `cut` is (dim, low, high) of `Boxes`."""
        block, rank = ends
        dim, *stretch = cut
        dims = tuple(
            dim_overlap.stretches(
                chunk, int(self.routes.target.chunks[rank, d]), *(stretch if d == dim else ())
            )
            for d, (dim_overlap, chunk) in enumerate(
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


def _sites(document: Transfer) -> list[PlacedMesh]:
    return [PlacedMesh(place.mesh, np.array(place.ranks)) for place in document.places]


def _route_groups(document: Transfer, sites: list[PlacedMesh]) -> Iterator[RouteGroup]:
    units = strides([size for _, size in document.levels])
    for line in document.tensors:
        source = PlacedTensor.of(line.sent, sites[line.source_place])
        target = PlacedTensor.of(line.target, sites[line.target_place])
        routes = Routes(source, target, units, slice_elements(line.element_bytes))
        yield RouteGroup(line.tensors, line.state, line.element_bytes, routes, line.turn)
