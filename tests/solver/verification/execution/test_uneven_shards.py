"""Collectives on chunks of unequal length, as they are and filled up to equal shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from meshwright.schema import Axis, Layout, Mesh, MeshAxis
from meshwright_costmodel.collectives import Interconnect
from meshwright_solver.layouts.redistribution import Placed, Redistributions
from meshwright_solver.layouts.states import PARTIAL, StateSpace
from meshwright_solver.problem.uneven import span_of
from meshwright_solver.verification.execution.collectives import StepError, run_step
from meshwright_solver.verification.execution.shards import shard, unshard

LINKS = Interconnect(("gpu",), (4096,), (1e9,), (100,), (False,))


def mesh_of(sizes: tuple[int, ...]) -> Mesh:
    names = [Axis(f"a{k}") for k in range(len(sizes))]
    return Mesh(
        axes=tuple(
            MeshAxis(name=name, size=size, level="gpu")
            for name, size in zip(names, sizes, strict=True)
        )
    )


def layout(*dims: tuple[int, int, tuple[str, ...]], padded: bool = False, **partial: str) -> Layout:
    """Dims as (size, span, axes); a span equal to the size is none."""
    return Layout.model_validate(
        {
            "dims": [
                {"parts": [{"size": n, "span": span if n < span and on else None, "axes": on}]}
                for n, span, on in dims
            ],
            "partial": partial,
            "padded": padded,
        }
    )


def lengths(shards: list[np.ndarray]) -> list[int]:
    return [len(own) for own in shards]


def test_the_last_chunks_are_short_or_empty_and_padded_ones_are_equal() -> None:
    # 11 over 8 devices, span 16: chunks of 2, the sixth short, the last two empty
    mesh, whole = mesh_of((8,)), np.arange(1, 12.0)
    chunks = shard(whole, layout((11, 16, ("a0",))), mesh)
    assert lengths(chunks) == [2, 2, 2, 2, 2, 1, 0, 0]
    padded = shard(whole, layout((11, 16, ("a0",)), padded=True), mesh)
    assert [own.tolist() for own in padded[4:]] == [[9, 10], [11, 0], [0, 0], [0, 0]]


def test_a_gather_over_the_fast_axis_gives_the_chunks_of_the_slow_one() -> None:
    # 11 over 2 x 4 devices, span 16: device (1, j) has 8 + 2 j; gathered over j it has 8 .. 10
    mesh, whole = mesh_of((2, 4)), np.arange(11.0)
    for padded in (False, True):
        both = layout((11, 16, ("a0", "a1")), padded=padded)
        slow = layout((11, 16, ("a0",)), padded=padded)
        made = run_step("all_gather", ["a1"], shard(whole, both, mesh), both, slow, mesh)
        assert made[4][:3].tolist() == [8, 9, 10]
        assert made[4][3:].tolist() == ([0] * 5 if padded else [])
        assert unshard(made, slow, mesh).tolist() == whole.tolist()


def test_a_padded_reduce_scatter_fills_up_the_sum_before_it_cuts_it() -> None:
    mesh, whole = mesh_of((4,)), np.arange(7.0)
    partial, cut = layout((7, 8, ()), a0="sum"), layout((7, 8, ("a0",)), padded=True)
    made = run_step("reduce_scatter", ["a0"], [whole] * 4, partial, cut, mesh)
    assert [own.tolist() for own in made] == [[0, 4], [8, 12], [16, 20], [24, 0]]


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (layout((7, 12, ("a0",))), "do not meet"),
        (layout((7, 8, ("a0",)), padded=True), "one alone is padded"),
    ],
)
def test_chunks_of_other_lengths_or_form_do_not_meet(after: Layout, why: str) -> None:
    mesh = mesh_of((2, 2))
    before = layout((7, 8, ("a0", "a1")))
    shards = shard(np.arange(7.0), before, mesh)
    with pytest.raises(StepError, match=why):
        run_step("all_gather", ["a1"], shards, before, after, mesh)


# --- random pairs --------------------------------------------------------------------------------

# axes, slots: chunks of 2 and 4, a short one after an empty one, no span beside one, three axes
SITUATIONS = [
    ((2, 4), (15, 8)),
    ((3, 4), (11, 6)),
    ((2, 2, 2), (15, 7)),
    ((2, 3), (11, 17)),
    ((5, 2), (9, 9)),
    ((2, 3, 2), (23, 35)),
]


def redistributions(axes: tuple[int, ...], slots: tuple[int, ...]) -> Redistributions:
    spans = tuple(span_of(size, axes) for size in slots)
    assert spans != slots
    space = StateSpace(slots, axes, 8 * math.prod(slots), True, spans)
    return Redistributions(space, (0,) * len(axes), LINKS)


def placed_layout(moves: Redistributions, placed: Placed, *, padded: bool) -> Layout:
    space = moves.space
    dims = []
    for slot, (size, span) in enumerate(zip(space.slot_sizes, space.spans, strict=True)):
        on = [a for a, code in enumerate(placed.codes) if code == slot]
        own = tuple(f"a{a}" for a in sorted(on, key=lambda a: placed.ranks[a]))
        dims.append((size, span, own))
    partial = {f"a{a}": "sum" for a, c in enumerate(placed.codes) if c == space.slots + PARTIAL}
    is_uneven = any(span > size and on for size, span, on in dims)
    return layout(*dims, padded=padded and is_uneven, **partial)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("axes", "slots"), SITUATIONS)
def test_paths_between_uneven_layouts_carry_every_array(
    axes: tuple[int, ...], slots: tuple[int, ...], padded: bool
) -> None:
    moves, mesh = redistributions(axes, slots), mesh_of(axes)
    random = np.random.default_rng(0)
    whole = random.integers(-99, 100, slots) * 1.0
    count = len(moves.space.states)
    steps = 0
    for _ in range(60):
        source, target = random.integers(0, count, 2).tolist()
        if not np.isfinite(moves.total_ns(np.array([source]), np.array([target]))).all():
            continue
        for path in (moves.forward_path(source, target), moves.backward_path(source, target)):
            if not path:
                continue
            before = placed_layout(moves, path[0].before, padded=padded)
            shards = shard(whole, before, mesh)
            for move in path:
                after = placed_layout(moves, move.after, padded=padded)
                names = [f"a{a}" for a in move.axes]
                check_payload(move.kind, before, after, move.payload_bytes, mesh)
                shards = run_step(move.kind, names, shards, before, after, mesh)
                before, steps = after, steps + 1
            assert [own.shape for own in shards] == [o.shape for o in shard(whole, before, mesh)]
            np.testing.assert_array_equal(unshard(shards, before, mesh), whole)
    assert steps > 50


def check_payload(kind: str, before: Layout, after: Layout, found: float, mesh: Mesh) -> None:
    """A gather's payload is all of its members' equal shares, padding included."""
    if kind == "all_gather":
        ways = math.prod(mesh.size(dim.axes) for dim in before.dims)
        left = math.prod(mesh.size(dim.axes) for dim in after.dims)
        share = math.prod(before.local_shape(mesh))
        assert found == pytest.approx(8 * share * ways / left)
    elif kind == "all_reduce":
        assert found == pytest.approx(8 * math.prod(after.local_shape(mesh)))
