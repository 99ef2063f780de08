"""Transfers carried out on arrays: every device gets what it needs, and nothing else is sent."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from meshwright.schema.transfer import Piece, Transfer
from meshwright.transfers.pieces import all_sends, device_transfer
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.layouts.transfers.transfer import transfer
from tests.solver.layouts.transfers.random_moves import Case, held, neutral, random_case

CASES = 2000
SHARDS = 8  # the cases are run in so many tests, which two processes share


def indices(piece: Piece, shape: tuple[int, ...]) -> IntArray:
    """The elements of a piece, as numbers in the whole tensor."""
    found = np.zeros(1, dtype=np.int64)
    for stretches, size in zip(piece.dims, shape, strict=True):
        inside = [
            run.first + run.step * k + i
            for run in stretches
            for k in range(run.count)
            for i in range(run.length)
        ]
        found = (found[:, None] * size + np.array(inside)).ravel()
    return found


def carry_out(case: Case, document: Transfer) -> None:
    """Moves real values and compares with the shards of the target's layout."""
    item = case.item
    shape = item.source.shape
    count = case.cluster.device_count
    devices = item.source_site.devices
    names = [item.tensor for item in case.items]
    truth = np.random.default_rng(0).standard_normal((len(names), prod(shape)))
    memory = np.full((len(names), count, prod(shape)), np.nan)
    for rank, own in enumerate(held(document.tensors[0].sent, item.source_site.mesh)):
        memory[:, devices[rank], own] = truth[:, own]
    before = ~np.isnan(memory[0])
    sent, received = np.zeros(count, dtype=int), np.zeros(count, dtype=int)
    after = memory.copy()
    has = memory
    for piece in sorted(all_sends(document), key=lambda piece: piece.wave):
        if piece.wave == 2 and has is memory:
            has = after.copy()
        inside = indices(piece, shape)
        assert piece.bytes == len(inside) * item.element_bytes > 0
        for name in piece.tensors:
            k = names.index(name)
            assert not np.isnan(has[k, piece.source, inside]).any(), "sends what it has not"
            assert np.isnan(after[k, piece.target, inside]).all(), "sent in vain, or twice"
            after[k, piece.target, inside] = has[k, piece.source, inside]
            sent[piece.source] += piece.bytes
            received[piece.target] += piece.bytes
    total = 0
    for rank, own in enumerate(held(item.target, item.target_site.mesh)):
        device = item.target_site.devices[rank]
        if neutral(item.target, item.target_site.mesh, rank):
            own = own[:0]
        assert (after[:, device, own] == truth[:, own]).all(), "the device has something else"
        lacking = len(names) * item.element_bytes * int((~before[device, own]).sum())
        assert received[device] == lacking
        total += lacking
    assert document.moved_bytes == received.sum() == total
    loads = np.zeros((count, 2), dtype=int)
    for load in document.loads:
        loads[load.first : load.first + load.count] = load.sent_bytes, load.received_bytes
    assert (loads[:, 0] == sent).all()
    assert (loads[:, 1] == received).all()


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_transfer_carried_out_gives_the_target_and_moves_what_is_lacking(shard: int) -> None:
    moved = 0
    for seed in range(shard, CASES, SHARDS):
        case = random_case(seed)
        document = transfer(case.items, case.cluster)
        carry_out(case, document)
        moved += document.moved_bytes > 0
    assert moved > CASES // SHARDS // 2


@pytest.mark.parametrize("seed", range(0, CASES, 40))
def test_devices_know_their_own_sends(seed: int) -> None:
    case = random_case(seed)
    document = transfer(case.items, case.cluster)
    expected = {(p.source, p.target, p.tensors, p.dims) for p in all_sends(document)}
    here = {int(d) for d in case.item.source_site.devices}
    there = {int(d) for d in case.item.target_site.devices}
    parts = [device_transfer(document, device) for device in sorted(here | there)]
    sends = [(p.source, p.target, p.tensors, p.dims) for part in parts for p in part.sends]
    receives = [(p.source, p.target, p.tensors, p.dims) for part in parts for p in part.receives]
    assert len(sends) == len(receives) == len(expected)
    assert set(sends) == set(receives) == expected
