"""There and back: for every target the same layout, and the same words."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from meshwright.convert import (
    DeviceGrid,
    DTensorLayout,
    JaxLayout,
    Placement,
    from_dtensor,
    from_jax,
    from_mindspore,
    normal,
    rewritten,
    to_dtensor,
    to_jax,
    to_mindspore,
    viewed,
)
from meshwright.convert.normal import lengths, sub_dim
from meshwright.convert.placement import REPLICATE
from meshwright.schema import ConversionError, Layout
from tests.clients.convert.held import grid, held, random_grid, random_layout

TARGETS: dict[str, tuple[Callable[..., Any], Callable[..., Layout]]] = {
    "dtensor": (to_dtensor, from_dtensor),
    "jax": (to_jax, from_jax),
    "mindspore": (to_mindspore, from_mindspore),
}
DEVICES = (2, 3, 4, 6, 8, 12, 16, 24)


def cases(count: int, uneven: float = 0.3) -> list[tuple[Any, Layout]]:
    chance = random.Random(count)
    found = []
    for _ in range(count):
        devices = random_grid(chance, chance.choice(DEVICES))
        found.append((devices, random_layout(chance, devices, uneven=uneven)))
    return found


def test_the_normal_form_holds_the_same_and_is_its_own() -> None:
    for devices, layout in cases(400):
        found = normal(layout, devices)
        assert normal(found, devices) == found
        for position in range(len(devices.ranks)):
            assert np.array_equal(
                held(found, devices, position), held(layout, devices, position)
            ), layout


@pytest.mark.parametrize("target", TARGETS)
def test_what_can_be_said_comes_back(target: str) -> None:
    to, back = TARGETS[target]
    said = literally = 0
    for devices, layout in cases(1500):
        try:
            words = to(layout, devices)
        except ConversionError:
            continue
        said += 1
        found = back(words, devices)
        assert normal(found, devices) == normal(layout, devices), layout
        assert to(found, devices) == words, layout
        again = rewritten(found, layout, devices)
        assert normal(again, devices) == normal(layout, devices)
        if is_shortest(layout, devices):
            literally += 1
            assert again == layout
    assert said > 400
    assert literally > 400


def is_shortest(layout: Layout, devices: DeviceGrid) -> bool:
    """Whether its chunks are written the shortest way, and padded where there are uneven ones.

    Nor is it sure which sub-dim axes lie on where one of length 1 could have them too.
    """
    parts = [part for dim in layout.dims for part in dim.parts]
    products = [dim for dim in layout.dims if len(dim.parts) > 1]
    if any(part.size == 1 and part.axes for dim in products for part in dim.parts):
        return False
    if layout.padded:
        return any(part.span or part.chunks for part in parts)
    return all(part == sub_dim(part.axes, lengths(part, devices.size(part.axes))) for part in parts)


@pytest.mark.parametrize("target", ["jax", "mindspore"])
def test_the_view_of_an_even_layout_can_always_be_said(target: str) -> None:
    to, _ = TARGETS[target]
    seen = 0
    for devices, layout in cases(500, uneven=0.0):
        bare = layout.model_copy(update={"partial": {}})
        if any(len(set(dim.segments)) > 1 for dim in normal(bare, devices).dims):
            continue
        seen += 1
        view = viewed(bare, devices)
        to(view, devices)
        for position in range(len(devices.ranks)):
            assert np.array_equal(
                held(view, devices, position).ravel(), held(bare, devices, position).ravel()
            )
    assert seen > 300


def shards(layout: Layout, devices: DeviceGrid) -> tuple[bytes, ...]:
    return tuple(held(layout, devices, k).tobytes() for k in range(len(devices.ranks)))


def test_what_a_partition_spec_cannot_say_no_partition_spec_says() -> None:
    """Every PartitionSpec there is for two small dims, against every layout that is refused."""
    chance = random.Random(5)
    refused = 0
    for _ in range(60):
        devices = random_grid(chance, chance.choice((4, 6, 8)))
        layout = random_layout(chance, devices, uneven=0.3)
        layout = layout.model_copy(update={"partial": {}, "padded": False})
        try:
            to_jax(layout, devices)
        except ConversionError:
            refused += 1
        else:
            continue
        wanted = shards(layout, devices)
        for partitions in all_partitions(devices.names, len(layout.shape)):
            spec = JaxLayout(shape=layout.shape, partitions=partitions)
            try:
                other = from_jax(spec, devices)
            except ConversionError:
                continue
            assert shards(other, devices) != wanted, (layout, partitions)
    assert refused > 20


def all_partitions(names: tuple[Any, ...], rank: int) -> Any:
    for count in range(len(names) + 1):
        for order in itertools.permutations(names, count):
            for dims in itertools.product(range(rank), repeat=count):
                if list(dims) == sorted(dims):
                    yield tuple(
                        tuple(a for a, own in zip(order, dims, strict=True) if own == d)
                        for d in range(rank)
                    )


def test_what_placements_cannot_say_no_placements_say() -> None:
    """Every placement with every split factor of one small dim, against what is refused."""
    chance = random.Random(6)
    refused = 0
    for _ in range(1000):
        devices = random_grid(chance, chance.choice((4, 6)))
        layout = random_layout(chance, devices, uneven=0.5)
        layout = Layout(dims=layout.dims[:1])
        size = layout.shape[0]
        if size > 24 or any(not held(layout, devices, k).size for k in devices.ranks):
            continue
        try:
            to_dtensor(layout, devices)
        except ConversionError:
            refused += 1
        else:
            continue
        wanted = shards(layout, devices)
        choices = [REPLICATE] + [
            Placement(kind="shard", dim=0, split_factor=factor) for factor in range(1, size + 1)
        ]
        for placements in itertools.product(choices, repeat=len(devices.names)):
            words = DTensorLayout(shape=(size,), placements=placements)
            try:
                other = from_dtensor(words, devices)
            except ConversionError:
                continue
            assert shards(other, devices) != wanted, (layout, words)
    assert refused > 20


def test_axes_of_one_device_stay_where_they_are() -> None:
    devices = grid(one=1, a=2)
    for placements in itertools.product(
        (REPLICATE, Placement(kind="shard", dim=0), Placement(kind="shard", dim=1)), repeat=2
    ):
        words = DTensorLayout(shape=(4, 6), placements=placements)
        assert to_dtensor(from_dtensor(words, devices), devices) == words
    for partitions in all_partitions(devices.names, 2):
        spec = JaxLayout(shape=(4, 6), partitions=partitions)
        assert to_jax(from_jax(spec, devices), devices) == spec
    strided = Placement(kind="shard", dim=0, split_factor=2)
    with pytest.raises(ConversionError, match="has one device"):
        from_dtensor(DTensorLayout(shape=(4, 6), placements=(strided, REPLICATE)), devices)


def test_every_pair_of_placements_of_a_dim_comes_back_or_is_refused() -> None:
    """All split factors, sizes that divide and that do not: nothing comes back as another."""
    said = 0
    for size in range(1, 19):
        devices = grid(a=2, b=3)
        choices = [REPLICATE] + [
            Placement(kind="shard", dim=0, split_factor=factor) for factor in range(1, size + 2)
        ]
        for placements in itertools.product(choices, repeat=2):
            words = DTensorLayout(shape=(size,), placements=placements)
            try:
                layout = from_dtensor(words, devices)
            except ConversionError:
                continue
            said += 1
            assert to_dtensor(layout, devices) == words
    assert said > 150
