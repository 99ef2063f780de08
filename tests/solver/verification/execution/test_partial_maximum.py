"""Values that are the maximum of their parts: every step there is for them, on arrays."""

from __future__ import annotations

import numpy as np
import pytest

from meshwright.schema import Dim, Layout, LayoutError, Mesh, SubDim
from meshwright_solver.verification.execution.collectives import StepError, run_step
from meshwright_solver.verification.execution.shards import shard, unshard

MESH = Mesh.model_validate(
    {"axes": [{"name": n, "size": s, "level": "gpu"} for n, s in (("a", 2), ("b", 3))]}
)


def layout(rows: tuple[str, ...] = (), **partial: str) -> Layout:
    return Layout.model_validate(
        {
            "dims": (Dim(parts=(SubDim(size=6, axes=rows),)), Dim(parts=(SubDim(size=4),))),  # type: ignore[arg-type]
            "partial": partial,
        }
    )


def parts(dtype: str) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [(generator.standard_normal((6, 4)) * 100 - 300).astype(dtype) for _ in range(6)]


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_reductions_take_the_maximum(dtype: str) -> None:
    held = parts(dtype)
    first, second = np.max(held[:3], axis=0), np.max(held[3:], axis=0)
    whole = run_step("all_reduce", ("b",), held, layout(b="max"), layout(), MESH)
    for rank, own in enumerate(whole):
        np.testing.assert_array_equal(own, first if rank < 3 else second)
    scattered = run_step("reduce_scatter", ("b",), held, layout(b="max"), layout(("b",)), MESH)
    np.testing.assert_array_equal(scattered[1], first[2:4])
    assert unshard(held, layout(a="max", b="max"), MESH).max() == max(own.max() for own in held)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_a_value_can_become_partial_and_come_back(dtype: str) -> None:
    value = parts(dtype)[0]
    held = shard(value, layout(), MESH)
    masked = run_step("mask", ("a",), held, layout(), layout(a="max"), MESH)
    back = run_step("all_reduce", ("a",), masked, layout(a="max"), layout(), MESH)
    np.testing.assert_array_equal(back[4], value)
    np.testing.assert_array_equal(
        unshard(shard(value, layout(b="max"), MESH), layout(b="max"), MESH), value
    )


def test_sums_and_maxima_do_not_mix() -> None:
    held = parts("float64")
    with pytest.raises(LayoutError, match="by sum and by maximum"):
        run_step("all_reduce", ("a", "b"), held, layout(a="sum", b="max"), layout(), MESH)
    with pytest.raises(StepError, match="changes axis 'a' too"):
        run_step("all_reduce", ("b",), held, layout(a="max", b="sum"), layout(a="sum"), MESH)
