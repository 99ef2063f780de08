"""Paths between random pairs of states, carried out forward and backward on all devices' arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest

from meshwright.schema import Axis, Dim, Layout, Mesh, MeshAxis, SubDim
from meshwright_costmodel.collectives import collective_cost
from meshwright_solver.layouts.redistribution import LayoutStep, Path, Redistributions
from meshwright_solver.verification.execution.collectives import run_step
from meshwright_solver.verification.execution.shards import shard, unshard
from tests.solver.redistribution_cases import (
    carried_out,
    collect_and_cut_ns,
    gradient_lay,
    local_bytes,
    pairs,
    placed_lay,
    situation,
    value_lay,
)
from tests.solver.stacked_devices import Lay

# axes, devices at least and at most, elements at most, situations, pairs of each
SMALL = [
    (1, (2, 8), 480, 24, 50),
    (2, (4, 64), 480, 60, 60),
    (3, (8, 216), 480, 60, 60),
    (4, (16, 400), 240, 12, 150),
]
LARGE = [(3, (101, 512), 480, 20, 50), (4, (400, 3200), 96, 5, 100)]
SHARES = 8  # of the situations, so that two processes can share them


def test_there_are_ten_thousand_cases_and_several_hundred_on_more_than_a_hundred_devices():
    assert sum(situations * count for *_, situations, count in SMALL + LARGE) >= 10_000
    assert sum(situations * count for *_, situations, count in LARGE) >= 500
    # the greatest mesh there can be
    assert LARGE[-1][1][1] >= 8 * 8 * 8 * 6


@pytest.mark.parametrize("share", range(SHARES))
def test_paths_carry_values_and_gradients_from_layout_to_layout(share: int):
    for row, (axes, devices, elements, situations, count) in enumerate(SMALL + LARGE):
        for k in range(share, situations, SHARES):
            random = np.random.default_rng([row, k])
            moves = situation(random, axes, most_elements=elements, devices=devices)
            whole = random.integers(-99, 100, moves.space.slot_sizes)
            for source, target in pairs(moves, random, count):
                forward = moves.forward_path(source, target)
                ends = value_lay(moves, source), value_lay(moves, target)
                carried_out(moves, forward, ends, whole, random)
                check_price(moves, forward, ends)
                backward = moves.backward_path(source, target)
                if moves.space.has_gradient:
                    ends = gradient_lay(moves, target), gradient_lay(moves, source)
                    carried_out(moves, backward, ends, whole, random)
                    check_price(moves, backward, ends)
                ns = sum(move.ns for move in forward)
                at = np.array([source]), np.array([target])
                assert moves.forward_ns(*at)[0] == pytest.approx(ns, rel=1e-9)
                ns += sum(move.ns for move in backward)
                assert moves.total_ns(*at)[0] == pytest.approx(ns, rel=1e-9)


def check_price(moves: Redistributions, path: Path, ends: tuple[Lay, Lay]) -> None:
    """Every step costs what its collective does; all are never dearer than gather-then-slice."""
    for move in path:
        assert move.ns == pytest.approx(price(moves, move), rel=1e-9)
    limit = collect_and_cut_ns(moves, ends[0])
    assert sum(move.ns for move in path) <= limit * (1 + 1e-9)


def price(moves: Redistributions, move: LayoutStep) -> float:
    before, after = placed_lay(moves, move.before), placed_lay(moves, move.after)
    if move.kind in ("slice", "mask"):
        assert move.payload_bytes == 0
        return 0.0
    payload = local_bytes(moves, after if move.kind == "all_gather" else before)
    assert move.payload_bytes == pytest.approx(payload)
    kind = "send" if move.kind == "permute" else move.kind
    extents = moves.extents(move.axes)
    cost = collective_cost(kind, extents, moves.interconnect)
    lost = [set(own) - set(new) for own, new in zip(before.slots, after.slots, strict=True)]
    got = [set(new) - set(own) for own, new in zip(before.slots, after.slots, strict=True)]
    exchanged = kind == "all_to_all" and (
        any(a and b for a, b in zip(lost, got, strict=True))
        or {a for own in lost for a in own} != set(move.axes)
    )
    if exchanged:  # the part is taken to leave its device whole
        whole = collective_cost("send", extents, moves.interconnect)
        return cost.latency_ns + whole.ns_per_byte * payload
    return cost.ns(payload)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_the_steps_of_paths_are_steps_that_plans_can_be_verified_with(axes: int):
    # the executor of `meshwright verify`, device by device
    for k in range(16):
        random = np.random.default_rng([100, axes, k])
        moves = situation(random, axes, most_elements=240, devices=(2, 36))
        for source, target in pairs(moves, random, 12):
            ends = value_lay(moves, source), value_lay(moves, target)
            run(moves, moves.forward_path(source, target), ends, random)
            ends = gradient_lay(moves, target), gradient_lay(moves, source)
            run(moves, moves.backward_path(source, target), ends, random)


def run(
    moves: Redistributions, path: Path, ends: tuple[Lay, Lay], random: np.random.Generator
) -> None:
    if not path:
        return
    mesh = Mesh(
        axes=tuple(
            MeshAxis(name=Axis(f"a{k}"), size=size, level="gpu")
            for k, size in enumerate(moves.space.axis_sizes)
        )
    )
    whole = random.integers(-99, 100, moves.space.slot_sizes) * 1.0
    at = layout(moves, ends[0])
    held = shard(whole, at, mesh)
    for move in path:
        after = layout(moves, placed_lay(moves, move.after))
        axes = [mesh.names[a] for a in move.axes]
        held = run_step(move.kind, axes, held, at, after, mesh)
        at = after
    assert at == layout(moves, ends[1])
    np.testing.assert_array_equal(unshard(held, at, mesh), whole)
    assert max(own.size for own in held) == math.prod(at.local_shape(mesh))


def layout(moves: Redistributions, lay: Lay) -> Layout:
    dims = (
        Dim(parts=(SubDim(size=size, axes=tuple(Axis(f"a{a}") for a in own)),))
        for size, own in zip(moves.space.slot_sizes, lay.slots, strict=True)
    )
    return Layout(dims=tuple(dims), partial={Axis(f"a{a}"): "sum" for a in lay.partial})
