"""Tensor maps against the formulas of MindSpore's layouts, and cases worked by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest

from meshwright.convert import (
    DeviceGrid,
    MindSporeLayout,
    from_mindspore,
    layout_arguments,
    to_mindspore,
)
from meshwright.schema import Axis, ConversionError, Dim, Layout, LayoutError, SubDim
from tests.clients.convert.held import Indices, grid, held, random_grid, random_layout

DP_SP_MP = grid(dp=2, sp=2, mp=2)


def part(size: int, *axes: str, span: int | None = None) -> SubDim:
    return SubDim(size=size, axes=tuple(Axis(axis) for axis in axes), span=span)


def plain(*dims: SubDim) -> Layout:
    return Layout(dims=tuple(Dim(parts=(dim,)) for dim in dims))


def slice_of(words: MindSporeLayout, rank: int) -> Indices:
    """The elements of a rank: ranks are mixed-radix numbers over the device matrix, the last entry
    fastest; dim i has length shape[i] / device_matrix[from the right, map[i]]."""
    coordinates = []
    for size in reversed(words.device_matrix):
        rank, own = divmod(rank, size)
        coordinates.append((own, size))
    window = []
    for length, place in zip(words.tensor_shape, words.tensor_map, strict=True):
        index, ways = 0, 1
        for from_the_right in place if isinstance(place, tuple) else (place,):
            if from_the_right >= 0:
                own, size = coordinates[from_the_right]
                index, ways = index * size + own, ways * size
        assert length % ways == 0
        window.append(slice(index * length // ways, (index + 1) * length // ways))
    numbers = np.arange(int(np.prod(words.tensor_shape))).reshape(words.tensor_shape)
    return numbers[tuple(window)]


def test_every_rank_has_the_slice_that_the_tensor_map_says() -> None:
    chance = random.Random(4)
    said = 0
    for _ in range(800):
        devices = random_grid(chance, chance.choice((2, 3, 4, 6, 8, 12, 24)))
        layout = random_layout(chance, devices, uneven=0.0)
        try:
            words = to_mindspore(layout, devices)
        except ConversionError:
            continue
        said += 1
        for rank in devices.ranks:
            assert np.array_equal(slice_of(words, rank), held(layout, devices, rank)), layout
    assert said > 200


def test_the_layouts_of_a_matrix_product() -> None:
    """[M,K] x [K,N] cut (a,b),(b,c): the device matrix [a,b,c], maps [2,1], [1,0], output [2,0]."""
    devices = grid(a=2, b=3, c=4)
    for axes, places in ((("a", "b"), (2, 1)), (("b", "c"), (1, 0)), (("a", "c"), (2, 0))):
        layout = plain(*(part(12, axis) for axis in axes))
        words = to_mindspore(layout, devices)
        assert (words.device_matrix, words.tensor_map) == ((2, 3, 4), places)
        assert from_mindspore(words, devices) == layout


def test_maps_count_from_the_right_and_minus_one_is_not_split() -> None:
    words = to_mindspore(plain(part(8, "dp"), part(8), part(8, "mp", "sp")), DP_SP_MP)
    assert words.tensor_map == (2, -1, (0, 1))
    assert words.aliases(DP_SP_MP) == ("dp", "None", ("mp", "sp"))
    assert MindSporeLayout.from_aliases(words.aliases(DP_SP_MP), (8, 8, 8), DP_SP_MP) == words


def test_the_example_of_mindspores_manual() -> None:
    """Layout((2, 2, 2), ("dp", "sp", "mp"))("dp", "mp") has the tensor map (2, 0)."""
    words = MindSporeLayout.from_aliases(("dp", "mp"), (4, 4), DP_SP_MP)
    assert words.tensor_map == (2, 0)
    assert layout_arguments(DP_SP_MP) == {
        "device_matrix": (2, 2, 2),
        "alias_name": ("dp", "sp", "mp"),
        "rank_list": list(range(8)),
    }


def test_places_are_written_the_shortest_way() -> None:
    words = MindSporeLayout(
        device_matrix=(2, 4), tensor_map=((1,), (-1, 0), ()), tensor_shape=(8,) * 3
    )
    assert words.tensor_map == (1, 0, -1)


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        (Layout(dims=(Dim(parts=(part(3), part(8, "mp"))),)), r"cut inside, over mp, .*\[3, 8\]"),
        (plain(part(9, "mp", span=10)), "uneven chunks, 9 over a span of 10"),
        (plain(part(4)).model_copy(update={"partial": {"dp": "sum"}}), "partial over dp"),
        (
            Layout(dims=(Dim(parts=(part(2, "dp"), part(30)), segments=(40, 10, 10)),)),
            "segments of the lengths",
        ),
    ],
)
def test_what_no_tensor_map_says_names_tensor_layout_and_reason(layout: Layout, why: str) -> None:
    with pytest.raises(ConversionError, match=why) as caught:
        to_mindspore(layout, DP_SP_MP, name="tensor 'w'")
    assert caught.value.detail.startswith(f"tensor 'w': layout {layout}: ")


def test_a_padded_vocabulary_is_that_of_the_longer_table() -> None:
    layout = plain(part(50257, "sp", "mp", span=50304), part(8)).model_copy(update={"padded": True})
    words = to_mindspore(layout, DP_SP_MP)
    assert (words.tensor_shape, words.padded_from) == ((50304, 8), (50257, 8))
    assert from_mindspore(words, DP_SP_MP) == layout


def test_tensor_maps_that_are_no_layout_are_named() -> None:
    def words(*places: int, matrix: tuple[int, ...] = (2, 2, 2)) -> MindSporeLayout:
        return MindSporeLayout(
            device_matrix=matrix, tensor_map=places, tensor_shape=(6,) * len(places)
        )

    with pytest.raises(ConversionError, match="entry 3 from the right of a device matrix of 3"):
        from_mindspore(words(3), DP_SP_MP)
    with pytest.raises(ConversionError, match=r"device matrix \[4, 2\] is not"):
        from_mindspore(words(0, matrix=(4, 2)), DP_SP_MP)
    with pytest.raises(ConversionError, match="-1 or a position from 0 on, got -2"):
        words(-2)
    with pytest.raises(LayoutError, match="used twice"):
        from_mindspore(words(0, 0), DP_SP_MP)
    with pytest.raises(ConversionError, match="cannot be cut into 4"):
        from_mindspore(words(0, matrix=(1, 1, 4)), grid(dp=1, sp=1, mp=4))


@pytest.mark.parametrize("name", ["None", "interleaved_parallel"])
def test_names_that_mean_something_else_to_mindspore_are_refused(name: str) -> None:
    devices = DeviceGrid(names=(Axis("dp"), Axis(name)), sizes=(2, 2), ranks=(0, 1, 2, 3))
    with pytest.raises(ConversionError, match="means something else"):
        to_mindspore(plain(part(4, "dp")), devices).aliases(devices)


def test_interleaved_parallel_is_no_layout() -> None:
    devices = DeviceGrid(
        names=(Axis("dp"), Axis("interleaved_parallel")), sizes=(2, 2), ranks=(0, 1, 2, 3)
    )
    with pytest.raises(ConversionError, match="inside each device"):
        MindSporeLayout.from_aliases((("dp", "interleaved_parallel"),), (4,), devices)
