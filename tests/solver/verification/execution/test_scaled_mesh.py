"""Small meshes keep what permutes count on."""

from __future__ import annotations

import pytest

from meshwright.schema import Mesh, MeshAxis, Stage
from meshwright.schema.collective_step import Step
from meshwright.schema.layout import Layout
from meshwright.schema.stage import Redistribution
from meshwright_solver.verification.execution.scaled_mesh import scaled_mesh


def stage(sizes: dict[str, int], *permutes: tuple[str, ...]) -> Stage:
    axes = tuple(MeshAxis(name=name, size=size, level=name) for name, size in sizes.items())
    step = {
        "kind": "permute",
        "payload_bytes": 1,
        "peak_bytes": 1,
        "ns": 1.0,
        "to": Layout(dims=()),
    }
    moved = [
        Redistribution(
            tensor="x", op="f", input=0, traffic="activation", ns=1.0, counted_ns=1.0,
            forward=(Step(axes=own, **step),),
        )
        for own in permutes
    ]  # fmt: skip
    return Stage(
        mesh=Mesh(axes=axes), ops=(), tensors=(), parameters=(), redistributions=tuple(moved)
    )


@pytest.mark.parametrize(
    ("sizes", "permutes", "small"),
    [
        ({"a": 4, "b": 2, "c": 8}, [], (2, 2, 2)),
        ({"a": 4, "b": 2, "c": 8}, [("a", "b", "c")], (2, 2, 4)),
        ({"a": 8, "b": 8}, [("a", "b")], (2, 2)),
        ({"a": 4, "b": 8}, [("a", "b")], (2, 2)),
        ({"a": 6, "b": 2, "c": 3}, [("a", "b", "c")], (4, 2, 2)),
        ({"a": 1, "b": 5}, [("a", "b")], (1, 2)),
        ({"a": 2, "b": 2, "c": 4, "d": 16}, [("a", "b", "c"), ("c", "a", "b", "d")], (2, 2, 4, 16)),
    ],
)
def test_sizes_are_the_least_with_the_same_equal_products(sizes, permutes, small) -> None:
    found = scaled_mesh(stage(sizes, *permutes))
    assert tuple(axis.size for axis in found.axes) == small
    assert [axis.name for axis in found.axes] == list(sizes)
