"""PartitionSpecs against jax itself, and cases worked by hand."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshwright.convert import DeviceGrid, JaxLayout, from_jax, to_jax, viewed
from meshwright.schema import Axis, ConversionError, Dim, Layout, SubDim
from tests.clients.convert.held import grid, held, random_grid, random_layout

jax = pytest.importorskip("jax")

P = jax.sharding.PartitionSpec


def part(size: int, *axes: str, span: int | None = None) -> SubDim:
    return SubDim(size=size, axes=tuple(Axis(axis) for axis in axes), span=span)


def one(*parts: SubDim, **fields: Any) -> Layout:
    return Layout(dims=(Dim(parts=parts),), **fields)


def on_jax(cases: list[tuple[DeviceGrid, JaxLayout]]) -> dict[str, Any]:
    """What jax says in a process of 8 host devices; the last case is the sum."""
    dumped = [[devices.model_dump(), words.model_dump()] for devices, words in cases]
    given = {"cases": dumped[:-1], "sum": dumped[-1]}
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(Path(__file__).with_name("on_jax.py"))],
        input=json.dumps(given),
        env={
            **os.environ,
            "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
            "JAX_PLATFORMS": "cpu",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)  # type: ignore[no-any-return]


def test_jax_gives_every_device_what_the_layout_says_and_sums_what_is_partial() -> None:
    chance = random.Random(8)
    layouts: list[tuple[DeviceGrid, Layout]] = []
    cases = []
    while len(cases) < 200:
        devices = random_grid(chance, chance.choice((2, 3, 4, 6, 8)))
        ranks = list(devices.ranks)
        chance.shuffle(ranks)
        devices = devices.model_copy(update={"ranks": tuple(ranks)})
        layout = random_layout(chance, devices, uneven=0.4).model_copy(update={"partial": {}})
        try:
            words = to_jax(layout, devices)
        except ConversionError:
            continue
        layouts.append((devices, layout))
        cases.append((devices, words))
    rows = grid(dp=2, tp=4)
    summed = to_jax(one(part(8, "tp"), partial={"dp": "sum"}), rows)
    said = on_jax([*cases, (rows, summed)])
    # two rows 0..7 and 8..15: each device of dp holds its own, and the value is their sum
    assert said["sum"]["parts"] == [[float(k), k + 1.0] for k in range(0, 16, 2)]
    assert said["sum"]["whole"] == [float(k + k + 8) for k in range(8)]
    padded = 0
    for (devices, layout), (_, words), found in zip(layouts, cases, said["cases"], strict=True):
        padded += words.padded_from is not None
        own = layout.shape
        numbers = np.arange(int(np.prod(own))).reshape(own)
        for position, stretches in enumerate(found):
            shard = numbers[tuple(slice(start, stop) for start, stop in stretches)]
            assert np.array_equal(shard, held(layout, devices, position)), (layout, words)
    assert padded > 5


def test_axes_of_a_dim_are_slowest_first_and_the_data_is_what_jax_takes() -> None:
    devices = grid(dp=2, tp=4)
    layout = Layout(dims=(Dim(parts=(part(16, "tp", "dp"),)), Dim(parts=(part(5),))))
    words = to_jax(layout, devices)
    assert words.to_jax() == P(("tp", "dp"), None)
    assert from_jax(words, devices) == layout
    # a spec may leave out the last dims
    assert JaxLayout.from_jax(P("tp"), (16, 5)).partitions == (("tp",), ())


def test_partial_sums_are_unreduced_axes() -> None:
    devices = grid(dp=2, tp=4)
    layout = one(part(16, "tp"), partial={"dp": "sum"})
    words = to_jax(layout, devices)
    assert words.to_jax() == P("tp", unreduced={"dp"})
    assert JaxLayout.from_jax(words.to_jax(), (16,)) == words
    assert from_jax(words, devices) == layout
    with pytest.raises(ConversionError, match=r"tensor 'm'.*partial over 'dp' by its max"):
        to_jax(one(part(16), partial={"dp": "max"}), devices, name="tensor 'm'")


def test_a_padded_layout_is_that_of_the_longer_array() -> None:
    devices = grid(dp=2, tp=4)
    layout = one(part(50257, "tp", span=50304), padded=True)
    words = to_jax(layout, devices)
    assert (words.shape, words.padded_from) == ((50304,), (50257,))
    assert from_jax(words, devices) == layout


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        (one(part(3), part(8, "tp")), r"cut inside, over tp, .* \(reshape it to \[3, 8\]"),
        (one(part(10, "tp", span=12)), r"uneven chunks, 10 over a span of 12 \(pad it to 12"),
        (one(SubDim(size=9, axes=(Axis("tp"),), chunks=(3, 3, 1, 2))), "unequal lengths"),
        (
            Layout(dims=(Dim(parts=(part(2, "dp"), part(30)), segments=(40, 10, 10)),)),
            "segments of the lengths",
        ),
    ],
)
def test_what_no_spec_says_names_tensor_layout_and_reason(layout: Layout, why: str) -> None:
    with pytest.raises(ConversionError, match=why) as caught:
        to_jax(layout, grid(dp=2, tp=4), name="tensor 'w'")
    assert caught.value.detail.startswith(f"tensor 'w': layout {layout}: dim 0 ")


def test_fused_qkv_of_equal_parts_is_a_spec_of_its_view() -> None:
    devices = grid(dp=2, tp=4)
    layout = Layout(dims=(Dim(parts=(part(8, "tp"), part(15)), segments=(40, 40, 40)),))
    view = viewed(layout, devices)
    assert view.shape == (3, 40)
    assert to_jax(view, devices).to_jax() == P(None, "tp")


def test_specs_that_are_no_layout_are_named() -> None:
    devices = grid(dp=2, tp=4)
    with pytest.raises(ConversionError, match="stored as 10, cannot be cut into 4"):
        from_jax(JaxLayout.from_jax(P("tp"), (10,)), devices)
    with pytest.raises(ConversionError, match="of a dim is no layout"):
        JaxLayout.from_jax(P(P.UNCONSTRAINED), (10,))
    with pytest.raises(ConversionError, match="describe the gradient"):
        JaxLayout.from_jax(P(reduced={"dp"}), (10,))
    with pytest.raises(ConversionError, match="more dims than an array"):
        JaxLayout.from_jax(P(None, None), (10,))
    with pytest.raises(ConversionError, match="is empty"):
        JaxLayout.from_jax(P(None), (0,))


def test_a_mesh_needs_as_many_devices_as_ranks() -> None:
    with pytest.raises(ConversionError, match="rank 7, and jax has 3 devices"):
        grid(dp=2, tp=4).to_jax(["d0", "d1", "d2"])
