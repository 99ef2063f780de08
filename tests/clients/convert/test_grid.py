"""Grids and meshes."""

from __future__ import annotations

import itertools

import pytest

from meshwright.convert import DeviceGrid, grid_of, mesh_of
from meshwright.schema import Axis, ConversionError, LayoutError, Mesh, MeshAxis
from tests.clients.convert.held import grid


def mesh(**sizes: int) -> Mesh:
    return Mesh(
        axes=tuple(MeshAxis(name=Axis(n), size=s, level=f"level-{n}") for n, s in sizes.items())
    )


@pytest.mark.parametrize(
    "sizes", [{}, {"a": 8}, {"a": 2, "one": 1, "b": 3}, {"a": 2, "b": 3, "c": 4}]
)
def test_a_mesh_comes_back(sizes: dict[str, int]) -> None:
    given = mesh(**sizes)
    found = grid_of(given, ranks_from=16)
    assert found.ranks == tuple(range(16, 16 + given.device_count))
    assert mesh_of(found, levels={name: f"level-{name}" for name in sizes}) == given
    for position in range(given.device_count):
        assert found.coordinates(position) == given.coordinates(position)


def test_dims_in_another_order_are_the_same_mesh() -> None:
    """ranks [[0, 4], [1, 5], [2, 6], [3, 7]] over (tp, dp): dp is the slow axis."""
    turned = DeviceGrid(
        names=(Axis("tp"), Axis("dp")), sizes=(4, 2), ranks=(0, 4, 1, 5, 2, 6, 3, 7)
    )
    found = mesh_of(turned)
    assert found.names == ("dp", "tp")
    for position, rank in enumerate(turned.ranks):
        assert turned.coordinates(position) == found.coordinates(rank)


def test_of_all_orders_of_ranks_only_those_counted_along_dims_are_meshes() -> None:
    """Of the 24 orders of 4 ranks on 2 x 2 the two that count along one dim and then the other."""
    meshes = 0
    for ranks in itertools.permutations(range(4)):
        devices = DeviceGrid(names=(Axis("a"), Axis("b")), sizes=(2, 2), ranks=ranks)
        if ranks in ((0, 1, 2, 3), (0, 2, 1, 3)):
            assert len(mesh_of(devices).axes) == 2
            meshes += 1
            continue
        with pytest.raises(ConversionError, match="do not follow from its dims"):
            mesh_of(devices)
    assert meshes == 2


def test_ranks_and_names_have_to_fit() -> None:
    with pytest.raises(LayoutError, match="needs 4 ranks, all different, got 3"):
        DeviceGrid(names=(Axis("a"),), sizes=(4,), ranks=(0, 1, 2))
    with pytest.raises(LayoutError, match="needs 3 ranks, all different"):
        DeviceGrid(names=(Axis("a"),), sizes=(3,), ranks=(0, 1, 1))
    with pytest.raises(LayoutError, match="one size for each of its names"):
        DeviceGrid(names=(Axis("a"), Axis("a")), sizes=(1, 1), ranks=(0,))
    with pytest.raises(LayoutError, match="no axis 'x'; there are a, b"):
        grid(a=2, b=2).size((Axis("x"),))
