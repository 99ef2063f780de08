"""Transfers: tensors from one mesh to another, by sends and receives of the least possible data.

    transfer          totals, loads and time of moving items, and the recipe of every send
    between_stages    a value forward and its gradient back, between two pipeline stages

Per tensor, a partial source is reduced in place (`transfers.reduction`). The boxes of the two
layouts' chunks are then routed (`transfers.routes`) and put on links (`transfers.links`). Tensors
with equal moves are routed once. Equal replicas send in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from meshwright.schema import Layout, LayoutError, LayoutPair, Step
from meshwright.schema.transfer import DeviceLoad, Place, TensorTransfer, Transfer, TransferState
from meshwright.transfers.holding import PlacedMesh, PlacedTensor
from meshwright.transfers.routes import Boxes, Routes, slice_elements
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.common.identity_keys import IdentityKey, IdentityKeys
from meshwright_solver.layouts.transfers.links import Loads, Wiring
from meshwright_solver.layouts.transfers.reduction import reductions


@dataclass(frozen=True)
class Item:
    """One tensor with its layout and devices before and after."""

    tensor: str
    state: TransferState
    element_bytes: int
    source: Layout
    source_site: PlacedMesh
    target: Layout
    target_site: PlacedMesh


@dataclass(frozen=True)
class _ItemGroup:
    """Items with equal moves; `item` is the first of them. turn: see TensorTransfer."""

    item: Item
    tensors: tuple[str, ...]
    turn: int


@dataclass(frozen=True)
class TransferTotals:
    """Bytes over all devices."""

    needed: int
    kept: int
    moved: int
    sends: int


def transfer(
    items: Iterable[Item],
    cluster: Wiring,
    *,
    from_plan: str = "",
    to_plan: str = "",
    notes: Sequence[str] = (),
) -> Transfer:
    """Route all items; LayoutError names the tensor that cannot move.

    Every device of a site must be one of the cluster's.
    """
    loads = Loads(cluster)
    sites: list[PlacedMesh] = []
    lines: list[TensorTransfer] = []
    needed = 0
    reduction_ns = 0.0
    for group in _group_items(items):
        item = group.item
        places = [_position(sites, site) for site in (item.source_site, item.target_site)]
        try:
            steps, totals = _route(group, cluster, loads)
        except LayoutError as wrong:
            raise LayoutError(f"tensor {item.tensor!r}: {wrong.detail}") from None
        needed += totals.needed
        reduction_ns += len(group.tensors) * sum(step.ns for step in steps)
        lines.append(
            TensorTransfer(
                tensors=group.tensors,
                state=item.state,
                element_bytes=item.element_bytes,
                source=item.source,
                source_place=places[0],
                target=item.target,
                target_place=places[1],
                reduction=steps,
                turn=group.turn,
                moved_bytes=totals.moved,
                kept_bytes=totals.kept,
                sends=totals.sends,
            )
        )
    ns, busiest = loads.busiest()
    return Transfer(
        from_plan=from_plan,
        to_plan=to_plan,
        levels=cluster.levels,
        places=tuple(Place(mesh=site.mesh, devices=_stretches(site.devices)) for site in sites),
        tensors=tuple(lines),
        loads=tuple(_device_loads(loads)),
        needed_bytes=needed,
        kept_bytes=sum(line.kept_bytes for line in lines),
        moved_bytes=sum(line.moved_bytes for line in lines),
        sends=sum(line.sends for line in lines),
        reduction_ns=reduction_ns,
        ns=reduction_ns + ns,
        busiest=busiest,
        notes=tuple(notes),
    )


def between_stages(
    tensor: str,
    source: tuple[LayoutPair, PlacedMesh],
    target: tuple[LayoutPair, PlacedMesh],
    cluster: Wiring,
    *,
    value_bytes: int,
    gradient_bytes: int,
) -> tuple[Transfer, Transfer | None]:
    """A value from one stage to the next, and its gradient back; bytes are those of an element.

    The pairs give the layouts. A value that is partial at its producer (P) and a gradient that is
    partial at its reader (V) are reduced in place. A partial target receives the data on one
    device, and the others hold zeros; of replicas one is sent. The second transfer is None where
    there is no gradient.
    """
    (before, here), (after, there) = source, target
    forward = Item(tensor, "value", value_bytes, before.value, here, after.value, there)
    if before.gradient is None or after.gradient is None:
        return transfer([forward], cluster), None
    backward = Item(
        tensor, "gradient", gradient_bytes, after.gradient, there, before.gradient, here
    )
    return transfer([forward], cluster), transfer([backward], cluster)


def _group_items(items: Iterable[Item]) -> Iterator[_ItemGroup]:
    """Groups of items by content, in the order of first appearance; the turn is their number."""
    items_of: dict[object, list[Item]] = {}
    key_of = IdentityKeys()
    names: dict[IdentityKey, str] = {}

    def name(layout: Layout) -> str:
        key = key_of(layout)
        if key not in names:
            names[key] = layout.model_dump_json()
        return names[key]

    for item in items:
        key = (
            item.state, item.element_bytes, name(item.source), key_of(item.source_site),
            name(item.target), key_of(item.target_site),
        )  # fmt: skip
        items_of.setdefault(key, []).append(item)
    for turn, group in enumerate(items_of.values()):
        yield _ItemGroup(group[0], tuple(item.tensor for item in group), turn)


def _route(
    group: _ItemGroup, cluster: Wiring, loads: Loads
) -> tuple[tuple[Step, ...], TransferTotals]:
    item = group.item
    target = PlacedTensor.of(item.target, item.target_site)

    def routes(steps: tuple[Step, ...]) -> Routes:
        sent = steps[-1].to if steps else item.source
        return Routes(
            PlacedTensor.of(sent, item.source_site),
            target,
            cluster.strides,
            slice_elements(item.element_bytes),
        )

    options = reductions(item.source, item.source_site, item.element_bytes, cluster)
    best = 0
    if len(options) > 1:
        times = []
        for steps in options:
            trial = Loads(cluster)
            _load(routes(steps), _ItemGroup(item, (item.tensor,), group.turn), trial)
            times.append(sum(step.ns for step in steps) + trial.busiest()[0])
        best = int(np.argmin(times))
    return options[best], _load(routes(options[best]), group, loads)


def _load(routes: Routes, group: _ItemGroup, loads: Loads) -> TransferTotals:
    """Add the sends of all tensors of a group to the load of the links."""
    count, element_bytes = len(group.tensors), group.item.element_bytes
    each = count * element_bytes
    devices = routes.target.site.devices
    moved = sends = 0
    for boxes in routes.chunked(count):
        moved += int(boxes.elements.sum()) * each
        sends += len(boxes.elements) * count
        source, box, times = senders_of(routes, boxes, group.turn, count)
        size = boxes.elements[box] * times * element_bytes
        target, passed = devices[boxes.target[box]], boxes.relay[box] >= 0
        for wave, rows in enumerate((~passed, passed)):
            loads.add(source[rows], target[rows], size[rows], wave=wave)
    loads.keep(devices, routes.kept * each)
    totals = TransferTotals(
        int(routes.target.elements().sum()) * each, int(routes.kept.sum()) * each, moved, sends
    )
    assert totals.moved == totals.needed - totals.kept
    return totals


def senders_of(
    routes: Routes, boxes: Boxes, turn: int, count: int
) -> tuple[IntArray, IntArray, IntArray]:
    """The senders of boxes of `count` tensors: devices, boxes, and numbers of tensors."""
    turns = np.minimum(count, boxes.holders)
    box = np.repeat(np.arange(len(turns)), turns)
    k = np.arange(len(box)) - np.repeat(np.cumsum(turns) - turns, turns)
    holders = boxes.holders[box]
    sender = boxes.first[box] + (boxes.position[box] + turn + k) % holders
    relay = boxes.relay[box]
    device = np.where(relay < 0, routes.senders[sender], routes.target.site.devices[relay])
    return device, box, (count - k + holders - 1) // holders


def _position(sites: list[PlacedMesh], site: PlacedMesh) -> int:
    for position, known in enumerate(sites):
        if known is site:
            return position
    sites.append(site)
    return len(sites) - 1


def _stretches(devices: IntArray) -> tuple[tuple[int, int], ...]:
    begins = np.flatnonzero(np.concatenate(([True], np.diff(devices) != 1)))
    counts = np.diff(begins, append=len(devices))
    return tuple((int(devices[b]), int(c)) for b, c in zip(begins, counts, strict=True))


def _device_loads(loads: Loads) -> Iterator[DeviceLoad]:
    table = np.stack([loads.sent, loads.received, loads.kept], axis=1)
    begins = np.flatnonzero(np.concatenate(([True], (np.diff(table, axis=0) != 0).any(axis=1))))
    counts = np.diff(begins, append=len(table))
    for first, count in zip(begins.tolist(), counts.tolist(), strict=True):
        sent, received, kept = (int(value) for value in table[first])
        if sent or received or kept:
            yield DeviceLoad(
                first=first, count=count, sent_bytes=sent, received_bytes=received,
                kept_bytes=kept,
            )  # fmt: skip
