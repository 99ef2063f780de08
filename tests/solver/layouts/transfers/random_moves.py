"""Random tensors on random meshes, and whole-tensor indices of what each rank holds."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from meshwright.schema import (
    Axis,
    Device,
    Dim,
    Layout,
    Level,
    Link,
    Mesh,
    MeshAxis,
    SubDim,
    Topology,
)
from meshwright.transfers.holding import PlacedMesh
from meshwright_solver.common.arrays import IntArray
from meshwright_solver.layouts.transfers.links import Cluster
from meshwright_solver.layouts.transfers.transfer import Item
from meshwright_solver.verification.execution.shards import shard
from tests.solver.small_graphs import toy_calibration

SIZES = (2, 3, 5, 6, 8)
FACTORS = (1, 2, 2, 3, 4, 5, 6)
MOST = 24  # devices of a mesh; keeps two thousand cases within seconds
LARGEST = 600  # elements of a tensor


@dataclass(frozen=True)
class Case:
    """A cluster and items to move over it, alike but for their names."""

    cluster: Cluster
    items: tuple[Item, ...]

    @property
    def item(self) -> Item:
        return self.items[0]


def random_case(seed: int, *, partial: bool = False) -> Case:
    """One case; partial: its source is, over some axes."""
    random = np.random.default_rng(seed)
    cluster = random_cluster(random)
    meshes = [_mesh(random, f"{side}{seed}") for side in "ab"]
    factors = _factors(random)
    uneven = bool(random.integers(0, 2))
    layouts = [_layout(random, mesh, factors, uneven=uneven) for mesh in meshes]
    if partial:
        free = [a for a in meshes[0].names if a not in _used(layouts[0])]
        how = "sum" if random.integers(0, 2) else "max"
        taken = free[: int(random.integers(1, 3))]
        layouts[0] = layouts[0].model_copy(update={"partial": dict.fromkeys(taken, how)})
    if random.integers(0, 4) == 0:
        free = [a for a in meshes[1].names if a not in _used(layouts[1])]
        layouts[1] = layouts[1].model_copy(update={"partial": dict.fromkeys(free[:1], "sum")})
    devices = random.permutation(cluster.device_count)
    sites = [
        PlacedMesh(mesh, _devices(random, devices, mesh.device_count, k))
        for k, mesh in enumerate(meshes)
    ]
    count = int(random.integers(1, 4))
    size = int(random.choice((2, 30_000)))  # with the second, slices of three elements are worth it
    return Case(
        cluster,
        tuple(
            Item(f"t{k}", "value", size, layouts[0], sites[0], layouts[1], sites[1])
            for k in range(count)
        ),
    )


def random_cluster(random: np.random.Generator) -> Cluster:
    """48 devices or so in one to three levels."""
    shapes = ((48,), (6, 8), (2, 3, 8), (16, 3), (4, 4, 3))
    sizes = shapes[random.integers(0, len(shapes))]
    return Cluster.of(topology(sizes), toy_calibration())


def topology(sizes: tuple[int, ...], **link: int | str) -> Topology:
    """Levels l0, l1, …; each ten times as fast as the one before."""
    return Topology(
        device=Device(
            name="toy", memory_bytes=1 << 40, memory_bytes_per_s=1e12, flops_per_s={"float32": 1.0}
        ),
        levels=tuple(
            Level(
                name=f"l{k}",
                size=size,
                link=Link(**{"kind": "ib", "bytes_per_s": 1e9 * 10**k, "latency_ns": 1000, **link}),
            )
            for k, size in enumerate(sizes)
        ),
    )


def held(layout: Layout, mesh: Mesh) -> list[IntArray]:
    """By rank: the numbers of the elements that it holds, by the shards of the executor."""
    whole = np.arange(prod(layout.shape)).reshape(layout.shape)
    plain = layout.model_copy(update={"partial": {}, "padded": False})  # padding holds no element
    return [own.ravel() for own in shard(whole, plain, mesh)]


def neutral(layout: Layout, mesh: Mesh, rank: int) -> bool:
    """Whether another rank stands for the value over the partial axes."""
    at = mesh.coordinates(rank)
    return any(at[axis] for axis in layout.partial)


def _used(layout: Layout) -> set[Axis]:
    return {axis for dim in layout.dims for axis in dim.axes} | set(layout.partial)


def _mesh(random: np.random.Generator, prefix: str) -> Mesh:
    while True:
        sizes = [int(size) for size in random.choice(SIZES, size=random.integers(1, 5))]
        if prod(sizes) <= MOST:
            break
    return Mesh(
        axes=tuple(
            MeshAxis(name=Axis(f"{prefix}.{k}"), size=size, level="l0")
            for k, size in enumerate(sizes)
        )
    )


def _devices(random: np.random.Generator, devices: IntArray, count: int, side: int) -> IntArray:
    """The same devices in order, overlapping ones, or others in any order."""
    match int(random.integers(0, 3)):
        case 0:
            return np.arange(count)
        case 1:
            start = side * int(random.integers(0, 20))
            return np.arange(start, start + count)
        case _:
            return devices[:count] if side == 0 else devices[-count:]


def _factors(random: np.random.Generator) -> list[list[int]]:
    """Of every dim, factors of which both layouts make their parts."""
    while True:
        dims = [
            [int(f) for f in random.choice(FACTORS, size=random.integers(1, 5))]
            for _ in range(random.integers(1, 4))
        ]
        if prod(prod(dim) for dim in dims) <= LARGEST:
            return dims


def _layout(
    random: np.random.Generator, mesh: Mesh, factors: list[list[int]], *, uneven: bool
) -> Layout:
    axes = [mesh.names[k] for k in random.permutation(len(mesh.names))]
    dims = []
    for dim in factors:
        parts = []
        for size in _grouped(random, dim):
            taken = tuple(axes.pop() for _ in range(random.integers(0, min(len(axes), 2) + 1)))
            parts.append(_part(random, size, taken, mesh.size(taken), uneven=uneven))
        dims.append(Dim(parts=tuple(parts), segments=_segments(random, parts)))
    return Layout(dims=tuple(dims), padded=bool(random.integers(0, 2)))


def _grouped(random: np.random.Generator, factors: list[int]) -> list[int]:
    """Neighbouring factors multiplied."""
    ends = [k for k in range(1, len(factors)) if random.integers(0, 2)]
    return [prod(group.tolist()) for group in np.split(np.array(factors), ends)]


def _part(
    random: np.random.Generator, size: int, axes: tuple[Axis, ...], ways: int, *, uneven: bool
) -> SubDim:
    if not axes or (size % ways == 0 and random.integers(0, 4)):
        return SubDim(size=size, axes=axes)
    if not uneven:
        return SubDim(size=size)
    if random.integers(0, 2):
        span = -(-size // ways) * ways
        return SubDim(size=size, axes=axes, span=span if span > size else None)
    cuts = np.sort(random.integers(0, size + 1, size=ways - 1))
    chunks = np.diff(np.concatenate(([0], cuts, [size])))
    return SubDim(size=size, axes=axes, chunks=tuple(int(chunk) for chunk in chunks))


def _segments(random: np.random.Generator, parts: list[SubDim]) -> tuple[int, ...]:
    """Sometimes: two or three stretches of unequal lengths."""
    last, common = parts[-1].size, prod(part.size for part in parts[:-1])
    if last < 2 or random.integers(0, 3):
        return ()
    cut = int(random.integers(1, last))
    return (cut * common, (last - cut) * common)
