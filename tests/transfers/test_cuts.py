"""Cuts of a dim: runs of chunks, what two cuts share, and stretches."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schema import Axis, Dim, LayoutError, SubDim, TooLarge
from meshwright.schema.transfer import Stretch
from meshwright.transfers.cuts import cut_dim, overlap

A = Axis("a")


def dim(*parts: tuple[int, bool], segments: tuple[int, ...] = ()) -> Dim:
    """Sub-dims: a size, and whether it is split."""
    made = tuple(SubDim(size=size, axes=(A,) if split else ()) for size, split in parts)
    return Dim(parts=made, segments=segments)


def runs(dim: Dim, *ways: int) -> list[tuple[int, int]]:
    cut = cut_dim(dim, ways)
    return list(zip(cut.starts.tolist(), cut.chunks.tolist(), strict=True))


def test_an_outer_part_gives_one_run_a_chunk() -> None:
    assert runs(dim((2, True), (6, False)), 2, 1) == [(0, 0), (6, 1)]


def test_an_inner_part_gives_a_run_for_every_index_of_the_outer() -> None:
    # 2 x 4 in two: 01|23 of each four
    assert runs(dim((2, False), (4, True)), 1, 2) == [(0, 0), (2, 1), (4, 0), (6, 1)]


def test_both_parts_number_the_chunks_outer_first() -> None:
    parts = Dim(
        parts=(SubDim(size=2, axes=(A,)), SubDim(size=4, axes=(Axis("b"),))),
    )
    assert runs(parts, 2, 2) == [(0, 0), (2, 1), (4, 2), (6, 3)]


def test_segments_are_cut_alike() -> None:
    # q|k of 8 and 4, two heads: each device has half of q and half of k
    heads = dim((2, True), (6, False), segments=(8, 4))
    assert runs(heads, 2, 1) == [(0, 0), (4, 1), (8, 0), (10, 1)]


def test_short_and_empty_chunks_have_short_and_no_runs() -> None:
    part = SubDim(size=5, axes=(A,), span=8)
    assert runs(Dim(parts=(part,)), 4) == [(0, 0), (2, 1), (4, 2)]
    assert cut_dim(Dim(parts=(part,)), (4,)).lengths().tolist() == [2, 2, 1, 0]
    own = SubDim(size=5, axes=(A,), chunks=(0, 5))
    assert runs(Dim(parts=(own, SubDim(size=2))), 2, 1) == [(0, 1)]


def test_segments_without_the_common_factor_are_refused() -> None:
    with pytest.raises(LayoutError, match="have no common factor 2"):
        cut_dim(dim((2, True), (4, False), segments=(3, 5)), (2, 1))


def test_more_runs_than_memory_holds_are_refused() -> None:
    with pytest.raises(TooLarge, match="Split a part further out"):
        cut_dim(dim((10**8, False), (2, True)), (1, 2))


def test_an_overlap_counts_what_chunks_share() -> None:
    # 12 in three (0-3, 4-7, 8-11) and in two (0-5, 6-11)
    shared = overlap(dim((12, True)), (3,), dim((12, True)), (2,))
    row, place, count = shared.joined(np.array([2, 0, 1]), np.array([1, 0, 1]))
    found = {(i, k): n for i, k, n in zip(*(a.tolist() for a in (row, place, count)), strict=True)}
    assert found == {(0, 0): 4, (0, 2): 4, (1, 1): 4, (2, 0): 2, (2, 1): 2, (2, 2): 2}
    assert shared.density == 4 / 6
    assert shared.stretches(1, 1) == (Stretch(first=6, length=2),)
    assert shared.stretches(0, 1) == ()


def test_equal_runs_at_equal_distances_are_one_stretch() -> None:
    # 4 x 6 split inside in two, read whole: three of every six indices
    shared = overlap(dim((4, False), (6, True)), (1, 2), dim((24, False)), (1,))
    assert shared.stretches(1, 0) == (Stretch(first=3, length=3, step=6, count=4),)


def test_a_slice_of_what_is_shared_counts_its_indices() -> None:
    shared = overlap(dim((4, False), (6, True)), (1, 2), dim((24, False)), (1,))
    assert shared.stretches(0, 0, 2, 7) == (
        Stretch(first=2, length=1),
        Stretch(first=6, length=3),
        Stretch(first=12, length=1),
    )
