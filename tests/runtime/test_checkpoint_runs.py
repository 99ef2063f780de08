"""What ranks hold, and what two layouts share: on real arrays, whatever the layouts."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.runtime.checkpoint.index_runs import boxes, runs_of, shared, whole
from meshwright.runtime.gather_whole import whole_of
from meshwright.runtime.local_slices import from_parts, to_parts
from meshwright.schema import Axis, Dim, Layout, LayoutError, Mesh, MeshAxis, SubDim
from meshwright.schema.regions import region

NAMES = tuple(map(Axis, "abc"))
SIZES = (2, 3, 2)
SEGMENTS = (24, 12, 12)


def mesh(random: np.random.Generator) -> Mesh:
    order = random.permutation(3)
    return Mesh(axes=tuple(MeshAxis(name=NAMES[k], size=SIZES[k], level="x") for k in order))


def layout(random: np.random.Generator) -> Layout:
    """Dims of 48 = 24 | 12 | 12 and of 36, each cut at random."""
    axes = [[], [], [], [], [], []]
    for name, size in zip(NAMES, SIZES, strict=True):
        place = int(random.integers(7))
        if place < 6 and not axes[place]:
            axes[place].append((name, size))

    def parts(sizes: tuple[int, ...], own: list[list[tuple[Axis, int]]]) -> tuple[SubDim, ...]:
        return tuple(
            SubDim(size=size, axes=tuple(name for name, ways in cut if size % ways == 0))
            for size, cut in zip(sizes, own, strict=True)
        )

    first = ((6, 2, 4), (2, 6, 4), (3, 4, 4))[int(random.integers(3))]
    fused = Dim(parts=parts(first, axes[:3]), segments=SEGMENTS)
    return Layout(dims=(fused, Dim(parts=parts((3, 6, 2), axes[3:]))))


def join(pieces: list[np.ndarray], dim: int) -> np.ndarray:
    return np.concatenate(pieces, axis=dim)


def held(array: np.ndarray, own: Layout, devices: Mesh, rank: int) -> np.ndarray:
    """As the runtime cuts it: in parts form, and back."""
    form = to_parts(array, whole_of(own), devices, join)
    part = form[tuple(slice(*stretch) for stretch in region(own, devices, rank))]
    return from_parts(part, own, devices, join)


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(40))
def test_parts_of_one_layout_make_up_those_of_another(seed: int) -> None:
    random = np.random.default_rng(seed)
    (before, here), (after, there) = ((layout(random), mesh(random)) for _ in range(2))
    array = np.arange(48 * 36).reshape(48, 36)
    stored = {}
    for rank in range(12):
        runs = runs_of(before, here, rank)
        stored[runs] = held(array, before, here, rank)
        for box in boxes(runs):
            assert np.array_equal(array[box.source], stored[runs][box.target])
    for rank in range(12):
        wanted = held(array, after, there, rank)
        found, count = np.full(wanted.shape, -1), 0
        for runs, part in stored.items():
            for box in shared(runs, runs_of(after, there, rank)):
                found[box.target] = part[box.source]
                count += part[box.source].size
        assert np.array_equal(found, wanted)
        assert count == wanted.size  # each element is read once


def test_what_is_alike_is_one_box() -> None:
    # 8 columns of 4 heads: a rank holds the even halves of both, four runs of 2
    own = Layout(dims=(Dim(parts=(SubDim(size=4), SubDim(size=2, axes=(NAMES[0],)))),))
    devices = Mesh(axes=(MeshAxis(name=NAMES[0], size=2, level="x"),))
    runs = runs_of(own, devices, 1)
    assert [(run.start, run.stop, run.at) for run in runs[0]] == [
        (1, 2, 0), (3, 4, 1), (5, 6, 2), (7, 8, 3),
    ]  # fmt: skip
    (alike,) = shared(runs, runs)
    assert alike == ((slice(0, 4),), (slice(0, 4),))
    assert len(list(shared(whole((8,)), runs))) == 4


def test_a_padded_tensor_is_refused() -> None:
    own = Layout(dims=(Dim(parts=(SubDim(size=3, axes=(NAMES[0],), span=4),)),), padded=True)
    with pytest.raises(LayoutError, match="padded or partial"):
        runs_of(own, Mesh(axes=(MeshAxis(name=NAMES[0], size=2, level="x"),)), 0)
