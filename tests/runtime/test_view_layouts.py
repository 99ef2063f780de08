"""A view moves nothing: what a rank holds of a tensor and of its view are the same elements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshwright.schema import Axis, Dim, Layout, LayoutError, Mesh, MeshAxis, Op, SubDim
from meshwright.schema.regions import region
from meshwright.stages.view_layouts import unviewed, viewed

A, B = Axis("a"), Axis("b")
MESH = Mesh(axes=(MeshAxis(name=A, size=2, level="x"), MeshAxis(name=B, size=2, level="x")))


def held(whole: np.ndarray, layout: Layout, rank: int) -> np.ndarray:
    """The elements of a rank, in its own dims."""
    parts = whole.reshape([part.size for dim in layout.dims for part in dim.parts])
    own = parts[tuple(slice(*stretch) for stretch in region(layout, MESH, rank))]
    return own.reshape(layout.local_shape(MESH))


def reshape() -> Op:
    return Op(name="view", kind="reshape", inputs=("x",), outputs=("y",))


def test_heads_are_cut_as_the_columns_were() -> None:
    # 8 columns of 4 heads, cut over a: two heads of width 2 on each rank
    layout = Layout(dims=(Dim(parts=(SubDim(size=3),)), Dim(parts=(SubDim(size=8, axes=(A,)),))))
    found = viewed(layout, reshape(), (3, 4, 2), MESH)
    assert str(found) == "[3, 4@a, 2]"
    assert str(unviewed(found, reshape(), (3, 8), MESH)) == "[3, (4@a 2)]"


@pytest.mark.rotating
@pytest.mark.parametrize("seed", range(40))
def test_every_rank_holds_the_same_elements_in_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = [int(size) for size in random.choice([2, 3, 4], size=5)]
    cuttable = [place for place, size in enumerate(sizes) if size % 2 == 0]
    axes: dict[int, tuple[Axis, ...]] = {}
    for axis in (A, B):
        if cuttable:
            axes.setdefault(cuttable.pop(int(random.integers(len(cuttable)))), (axis,))
    parts = [SubDim(size=size, axes=axes.get(place, ())) for place, size in enumerate(sizes)]

    def grouped() -> Layout:
        inner = random.choice([1, 2, 3, 4], size=int(random.integers(0, 4)), replace=False)
        ends = [0, *sorted(int(end) for end in inner), 5]
        groups = [parts[a:b] for a, b in itertools.pairwise(ends)]
        return Layout(dims=tuple(Dim(parts=tuple(own)) for own in groups))

    layout, target = grouped(), grouped()
    whole = np.arange(np.prod(sizes))
    found = viewed(layout, reshape(), target.shape, MESH)
    order = [int(d) for d in random.permutation(len(target.dims))]
    turn = Op(name="turn", kind="transpose", inputs=("y",), outputs=("z",), attrs={"dims": order})
    turned = viewed(found, turn, tuple(target.shape[d] for d in order), MESH)
    assert unviewed(turned, turn, target.shape, MESH) == found
    for rank in range(4):
        own = held(whole, layout, rank).reshape(found.local_shape(MESH))
        assert np.array_equal(own, held(whole, found, rank))
        seen = whole.reshape(target.shape).transpose(order)
        assert np.array_equal(own.transpose(order), held(seen, turned, rank))


def test_a_view_that_cuts_through_a_part_is_refused() -> None:
    layout = Layout(dims=(Dim(parts=(SubDim(size=6, axes=(A,)),)),))
    with pytest.raises(LayoutError, match="a view divides 6 into 3 and the rest"):
        viewed(layout, reshape(), (3, 2), MESH)
