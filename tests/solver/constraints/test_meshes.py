"""The meshes of a topology: the finest that the number of axes allows, each once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.schema import TooLarge
from meshwright_solver.constraints.meshes import meshes
from tests.solver.small_graphs import topology


def shown(sizes: tuple[int, ...], most: int) -> list[str]:
    return [
        " ".join(f"{axis.name}={axis.size}" for axis in mesh.axes)
        for mesh in meshes(topology(*sizes), most)
    ]


@pytest.mark.parametrize(
    ("levels", "most", "expected"),
    [
        ((8,), 1, ["gpu=8"]),
        ((8,), 2, ["gpu0=4 gpu1=2"]),
        ((8,), 3, ["gpu0=2 gpu1=2 gpu2=2"]),
        # 12 as two axes: 6 x 2 and 4 x 3, neither a refinement of the other
        ((12,), 2, ["gpu0=6 gpu1=2", "gpu0=4 gpu1=3"]),
        ((12,), 3, ["gpu0=3 gpu1=2 gpu2=2"]),
        ((8, 8), 2, ["node=8 gpu=8"]),
        ((8, 8), 3, ["node=8 gpu0=4 gpu1=2", "node0=4 node1=2 gpu=8"]),
        ((3, 4), 3, ["node=3 gpu0=2 gpu1=2"]),
        ((1, 8), 1, ["gpu=8"]),
        ((5, 1), 3, ["node=5"]),
        ((1, 1), 3, ["gpu=1"]),
        ((2, 3, 4), 1, ["rack=2 node=3 gpu=4"]),  # a level is at least one axis
    ],
)
def test_the_finest_meshes_are_listed(levels, most, expected):
    assert shown(levels, most) == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=3), st.integers(1, 3))
def test_every_mesh_has_all_devices_in_descending_axes_of_one_level(levels, most):
    devices = topology(*levels)
    found = meshes(devices, most)
    assert len(set(found)) == len(found) >= 1
    for mesh in found:
        assert len(mesh.axes) <= max(most, len([size for size in levels if size > 1]), 1)
        for level in devices.levels:
            sizes = [axis.size for axis in mesh.axes if axis.level == level.name]
            assert prod(sizes) == level.size
            assert sizes == sorted(sizes, reverse=True)


def test_more_levels_than_can_be_searched_are_refused():
    many = topology(2, 2, 2, 2).to_dict()
    many["levels"].append({**many["levels"][0], "name": "die"})
    with pytest.raises(TooLarge, match="5 levels"):
        meshes(topology(2).from_dict(many), 3)


def splits(size: int, most: int) -> Iterator[tuple[int, ...]]:
    """Every way to write a size as a descending product of at most `most` factors above 1."""
    for count in range(1, most + 1):
        for sizes in product(range(2, size + 1), repeat=count):
            if prod(sizes) == size and list(sizes) == sorted(sizes, reverse=True):
                yield sizes


def merged(sizes: tuple[int, ...]) -> set[tuple[int, ...]]:
    """What merging axes of a level gives, itself left out."""
    found = set()
    for groups in product(range(len(sizes)), repeat=len(sizes)):
        made = [prod(s for s, g in zip(sizes, groups, strict=True) if g == k) for k in set(groups)]
        found.add(tuple(sorted(made, reverse=True)))
    return found - {sizes}


@pytest.mark.parametrize(
    ("levels", "most"),
    [*(((size,), most) for size in (2, 7, 12, 16, 30, 36) for most in (1, 2, 3)),
     ((4, 6), 2), ((4, 6), 3), ((2, 12), 3), ((6, 4), 4)],
)  # fmt: skip
def test_a_mesh_is_left_out_exactly_where_merging_axes_of_another_gives_it(levels, most):
    own = [list(splits(size, most)) for size in levels]
    shapes = [shape for shape in product(*own) if sum(map(len, shape)) <= most]
    coarser = {
        tuple(part)
        for shape in shapes
        for part in product(*({sizes} | merged(sizes) for sizes in shape))
        if tuple(part) != shape
    }
    expected = {shape for shape in shapes if shape not in coarser}
    found = {
        tuple(
            tuple(axis.size for axis in mesh.axes if axis.level == level.name)
            for level in topology(*levels).levels
        )
        for mesh in meshes(topology(*levels), most)
    }
    assert found == expected


def test_more_meshes_than_can_be_searched_are_refused_and_what_would_do_is_named():
    # 720,720 = 2^4 3^2 5 7 11 13 has 240 divisors: 119 products of two factors, 1,098 of three
    many = topology(720_720)
    with pytest.raises(TooLarge) as error:
        meshes(many, 3)
    assert "1,098 meshes of 3 axes, at most 128 are searched" in error.value.detail
    assert "Use a budget of 2 axes" in error.value.detail
    assert error.value.pointer == "/budget/max_axes"
    assert len(meshes(many, 2)) == 119
