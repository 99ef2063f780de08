"""Placements against torch itself, and cases worked by hand."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from meshwright.convert import (
    DeviceGrid,
    DTensorLayout,
    Placement,
    from_dtensor,
    to_dtensor,
    viewed,
)
from meshwright.schema import Axis, ConversionError, Dim, Layout, LayoutError, SubDim
from tests.clients.convert.held import grid, held, random_grid, random_layout

torch = pytest.importorskip("torch")


@contextmanager
def process_group(rank: int, world: int) -> Iterator[None]:
    """This process as one of `world`, whose collectives do nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def cases(world: int, count: int) -> list[tuple[DeviceGrid, Layout, DTensorLayout]]:
    chance = random.Random(world)
    found = []
    while len(found) < count:
        devices = random_grid(chance, world)
        layout = random_layout(chance, devices, uneven=0.4)
        layout = layout.model_copy(update={"partial": {}, "padded": False})
        try:
            found.append((devices, layout, to_dtensor(layout, devices)))
        except ConversionError:
            continue
    return found


@pytest.mark.parametrize("world", [2, 3, 4, 6, 8, 12, 24])
def test_torch_gives_every_rank_what_the_layout_says(world: int) -> None:
    from torch.distributed.tensor import distribute_tensor
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    given = cases(world, 24)
    assert any(p.split_factor > 1 for _, _, words in given for p in words.placements) or world < 4
    for rank in range(world):
        with process_group(rank, world):
            meshes = {devices.sizes: devices.to_torch("cpu") for devices, _, _ in given}
            for devices, layout, words in given:
                mesh, placements = meshes[devices.sizes], words.to_torch()
                numbers = torch.arange(int(np.prod(layout.shape))).reshape(layout.shape)
                local = distribute_tensor(numbers, mesh, placements, src_data_rank=None).to_local()
                assert np.array_equal(local.numpy(), held(layout, devices, rank)), (layout, words)
                shape, _ = compute_local_shape_and_global_offset(layout.shape, mesh, placements)
                assert shape == held(layout, devices, rank).shape
                assert DTensorLayout.from_torch(placements, layout.shape) == words
            assert DeviceGrid.from_torch(meshes[given[0][0].sizes]) == given[0][0]


def one(*parts: SubDim, segments: tuple[int, ...] = ()) -> Layout:
    return Layout(dims=(Dim(parts=parts, segments=segments),))


def part(size: int, *axes: str, span: int | None = None, chunks: tuple[int, ...] = ()) -> SubDim:
    return SubDim(size=size, axes=tuple(Axis(a) for a in axes), span=span, chunks=chunks)


def shown(layout: Layout, devices: DeviceGrid) -> list[str]:
    return [str(placement) for placement in to_dtensor(layout, devices).placements]


DP_TP = grid(dp=2, tp=4)


@pytest.mark.parametrize(
    ("layout", "placements"),
    [
        # the first axis of the mesh cuts first
        (one(part(16, "dp", "tp")), ["Shard(0)", "Shard(0)"]),
        # FSDP over tensor parallel: dp cuts each of tp's 4 pieces
        (one(part(16, "tp", "dp")), ["_StridedShard(0, split_factor=4)", "Shard(0)"]),
        # inside each of 3 heads
        (one(part(3), part(8, "tp")), ["Replicate()", "_StridedShard(0, split_factor=3)"]),
        # q|k|v of equal length, 8 heads of 5: tp cuts each of the 3
        (
            one(part(8, "tp"), part(15), segments=(40, 40, 40)),
            ["Replicate()", "_StridedShard(0, split_factor=3)"],
        ),
        # 10 over 4: chunks of 3, 3, 3, 1, as torch.chunk makes them
        (one(part(10, "tp", span=12)), ["Replicate()", "Shard(0)"]),
        # 5 over 2, then 3 and 2 over 4, by chunks of 1
        (one(part(5, "dp", "tp", chunks=(1, 1, 1, 0, 1, 1, 0, 0))), ["Shard(0)", "Shard(0)"]),
    ],
)
def test_worked_by_hand(layout: Layout, placements: list[str]) -> None:
    assert shown(layout, DP_TP) == placements


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        # grouped attention: 8 query heads behind 2 and 2 of key and value, in 2 groups
        (one(part(2, "dp"), part(30), segments=(40, 10, 10)), r"segments .* \[40, 10, 10\]"),
        # over 8 in one go chunks of 2 leave the last empty; 13 over 2 and then 4 do not
        (one(part(13, "dp", "tp", span=16)), "differ from DTensor's"),
        (one(part(10, "tp", chunks=(4, 2, 2, 2))), "differ from DTensor's"),
        (
            one(part(10, "tp", chunks=(4, 2, 2, 2))).model_copy(update={"padded": True}),
            "lengths set by the user",
        ),
        (one(part(3), part(7, "tp", span=8)).model_copy(update={"padded": True}), "padding inside"),
    ],
)
def test_what_no_placement_says_names_tensor_layout_and_reason(layout: Layout, why: str) -> None:
    with pytest.raises(ConversionError, match=why) as caught:
        to_dtensor(layout, DP_TP, name="tensor 'w'")
    assert caught.value.detail.startswith(f"tensor 'w': layout {layout}: dim 0 ")


def test_a_padded_layout_is_that_of_the_longer_tensor() -> None:
    layout = one(part(50257, "tp", span=50304)).model_copy(update={"padded": True})
    words = to_dtensor(layout, DP_TP)
    assert (words.shape, words.padded_from) == ((50304,), (50257,))
    assert [str(placement) for placement in words.placements] == ["Replicate()", "Shard(0)"]
    assert from_dtensor(words, DP_TP) == layout


def test_partial_sums_and_maxima_are_placements() -> None:
    layout = one(part(4)).model_copy(update={"partial": {"dp": "sum", "tp": "max"}})
    assert shown(layout, DP_TP) == ["Partial(sum)", "Partial(max)"]
    words = to_dtensor(layout, DP_TP)
    assert [p.reduce_op for p in words.to_torch()] == ["sum", "max"]  # type: ignore[attr-defined]
    assert from_dtensor(DTensorLayout.from_torch(words.to_torch(), (4,)), DP_TP) == layout


def test_segments_of_unequal_length_have_no_view_either() -> None:
    with pytest.raises(ConversionError, match="no reshape separates"):
        viewed(one(part(2, "dp"), part(30), segments=(40, 10, 10)), DP_TP)


def test_placements_that_are_no_layout_are_named() -> None:
    from torch.distributed.tensor import Partial, Shard

    with pytest.raises(ConversionError, match=r"Partial\(avg\)|Partial\('avg'\)"):
        DTensorLayout.from_torch([Partial("avg")], (4,))
    assert DTensorLayout.from_torch([Shard(-1)], (4, 6)).placements[0].dim == 1
    # an axis of 6 over what is left of a dim cut inside: 2 pieces outside, 4 inside
    across = DTensorLayout(
        shape=(24,),
        placements=(
            Placement(kind="shard", dim=0, split_factor=2),
            Placement(kind="shard", dim=0),
        ),
    )
    with pytest.raises(ConversionError, match=r"a: _StridedShard\(0, split_factor=2\), b: Shard"):
        from_dtensor(across, grid(a=3, b=4))
    with pytest.raises(ConversionError, match="1 placements for a mesh of 2"):
        from_dtensor(DTensorLayout(shape=(4,), placements=across.placements[:1]), DP_TP)
    with pytest.raises(ConversionError, match="only a shard has a dim"):
        Placement(kind="replicate", dim=1)
    with pytest.raises(ConversionError, match=r"Shard\(1\) of a tensor of the shape \[4\]"):
        DTensorLayout(shape=(4,), placements=(Placement(kind="shard", dim=1),))


def test_an_axis_that_the_mesh_has_not_is_named() -> None:
    with pytest.raises(LayoutError, match="no axis 'pp'"):
        to_dtensor(one(part(4, "pp")), DP_TP)
