"""The meshes of a topology: each level's devices as one axis or the product of several.

A coarse mesh is a special case of a finer one, with two axes on the same dim everywhere. The list
therefore has only the finest meshes that `max_axes` allows. No cost depends on the order of axes
within a level: sizes descend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import isqrt

from meshwright.schema import Axis, Mesh, MeshAxis, Request, TooLarge, Topology
from meshwright_solver.constraints.degrees_mesh import stated_mesh

MAX_AXES = 4  # chosen: tables grow with the power of the axes, four still fit in memory
# chosen: each is searched, for a second or more with a large model; 5,040 equal devices give 108
MAX_MESHES = 128

Shape = tuple[tuple[int, ...], ...]  # sizes of the axes of every level


def meshes_of(request: Request, max_axes: int) -> tuple[Mesh, ...]:
    """The one mesh of stated degrees, or the finest of the topology (`meshes`).

    Raises RequestError if the degrees do not fit the devices.
    """
    if request.degrees is not None:
        return (stated_mesh(request.topology, request.degrees, shard_size_of(request)),)
    return meshes(request.topology, max_axes)


def shard_size_of(request: Request) -> int | None:
    """The most devices over which a request shards states; None if it sets no limit."""
    wish = request.constraints.optimizer_parallel
    return None if wish is None else wish.shard_size


def meshes(topology: Topology, max_axes: int) -> tuple[Mesh, ...]:
    """The finest meshes of at most `max_axes` axes (at least one a level), in a fixed order.

    Raises TooLarge for more levels, or more meshes, than can be searched.
    """
    levels = [level for level in topology.levels if level.size > 1]
    if not levels:
        axis = MeshAxis(name=Axis(topology.levels[-1].name), size=1, level=topology.levels[-1].name)
        return (Mesh(axes=(axis,)),)
    if len(levels) > MAX_AXES:
        raise TooLarge(
            f"the topology has {len(levels)} levels of more than one unit, plans are searched for "
            f"at most {MAX_AXES}. Describe neighboring levels as one",
            pointer="/topology/levels",
        )
    sizes = [level.size for level in levels]
    most = max(max_axes, len(levels))
    shapes = _finest(sizes, most)
    if len(shapes) > MAX_MESHES:
        fewer = next(k for k in range(most, 0, -1) if len(_finest(sizes, k)) <= MAX_MESHES)
        raise TooLarge(
            f"{' × '.join(map(str, sizes))} devices make {len(shapes):,} meshes of {most} axes, at "
            f"most {MAX_MESHES} are searched. Use a budget of {fewer} axes, or describe nearer "
            "levels within these",
            pointer="/budget/max_axes",
        )
    return tuple(
        Mesh(
            axes=tuple(
                MeshAxis(
                    name=Axis(level.name if len(level_sizes) == 1 else f"{level.name}{k}"),
                    size=size,
                    level=level.name,
                )
                for level, level_sizes in zip(levels, shape, strict=True)
                for k, size in enumerate(level_sizes)
            )
        )
        for shape in shapes
    )


def _finest(sizes: Sequence[int], most: int) -> list[Shape]:
    """The finest shapes: those with `most` axes, or with prime sizes only."""
    options = [list(_factorisations(size, most - len(sizes) + 1)) for size in sizes]
    return [
        shape
        for shape in product(*options)
        if sum(map(len, shape)) == most
        or (
            sum(map(len, shape)) < most
            and all(_is_prime(size) for level_sizes in shape for size in level_sizes)
        )
    ]


def _is_prime(size: int) -> bool:
    return all(size % factor for factor in range(2, isqrt(size) + 1))


def _factorisations(size: int, most: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Descending products of at most `most` factors above 1."""
    if largest is None or size <= largest:
        yield (size,)
    if most > 1:
        for factor in range(min(size // 2, largest or size), 1, -1):
            if size % factor == 0:
                for rest in _factorisations(size // factor, most - 1, factor):
                    yield (factor, *rest)
