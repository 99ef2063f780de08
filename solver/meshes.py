"""The meshes of a topology: every level's devices as one axis or the product of several.

A coarse mesh is a special case of a finer one (two axes that always go together), so only the
finest meshes that `max_axes` allows are listed. Within one level the order of axes does not matter
to any cost: sizes descend.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from meshwright.schema import Axis, Mesh, MeshAxis, TooLarge, Topology

MAX_AXES = 4  # chosen: tables grow with the power of the axes, four still fit in memory


def meshes(topology: Topology, max_axes: int) -> tuple[Mesh, ...]:
    """The finest meshes of at most `max_axes` axes (at least one a level), in a fixed order."""
    levels = [level for level in topology.levels if level.size > 1]
    if not levels:
        axis = MeshAxis(name=Axis(topology.levels[-1].name), size=1, level=topology.levels[-1].name)
        return (Mesh(axes=(axis,)),)
    if len(levels) > MAX_AXES:
        raise TooLarge(
            f"the topology has {len(levels)} levels of more than one unit, plans are searched for "
            f"at most {MAX_AXES}; describe neighbouring levels as one",
            pointer="/topology/levels",
        )
    most = max(max_axes, len(levels))
    options = [list(_factorisations(level.size, most - len(levels) + 1)) for level in levels]
    shapes = [shape for shape in product(*options) if sum(map(len, shape)) <= most]
    finest = [
        shape
        for shape in shapes
        if not any(other != shape and _refines(other, shape) for other in shapes)
    ]
    return tuple(
        Mesh(
            axes=tuple(
                MeshAxis(
                    name=Axis(level.name if len(sizes) == 1 else f"{level.name}{k}"),
                    size=size,
                    level=level.name,
                )
                for level, sizes in zip(levels, shape, strict=True)
                for k, size in enumerate(sizes)
            )
        )
        for shape in finest
    )


def _factorisations(size: int, most: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Descending products of at most `most` factors above 1."""
    if largest is None or size <= largest:
        yield (size,)
    if most > 1:
        for factor in range(min(size // 2, largest or size), 1, -1):
            if size % factor == 0:
                for rest in _factorisations(size // factor, most - 1, factor):
                    yield (factor, *rest)


def _refines(fine: tuple[tuple[int, ...], ...], coarse: tuple[tuple[int, ...], ...]) -> bool:
    """Whether each level of `coarse` is had by merging axes of `fine`."""
    return all(_merges(sorted(f), sorted(c)) for f, c in zip(fine, coarse, strict=True))


def _merges(fine: list[int], coarse: list[int]) -> bool:
    if not coarse:
        return not fine
    target, rest = coarse[0], coarse[1:]

    def subsets(start: int, left: int, taken: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if left == 1:
            yield taken
        for k in range(start, len(fine)):
            if left % fine[k] == 0:
                yield from subsets(k + 1, left // fine[k], (*taken, k))

    return any(
        _merges([f for k, f in enumerate(fine) if k not in taken], rest)
        for taken in subsets(0, target, ())
    )
