"""The meshes of a topology: the finest that the number of axes allows, each once."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.schema import TooLarge
from solver.meshes import meshes
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
