"""Regions of shard_map: as jax runs their ranks, planned, executed in numpy, or refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, PartitionSpec

from meshwright.capture import JaxRecipe, capture_jax
from meshwright.capture.jax.shard_maps import whole_function
from meshwright.schema import Budget, Graph, GraphError
from meshwright_solver.verification.verify import verify_documents
from tests.solver.requests import planned, toy_request
from tests.solver.small_graphs import topology

Array = Any
AXIS, MOST_COLUMNS = "tp", 64
S = jax.ShapeDtypeStruct


def random_rank(seed: int, size: int) -> tuple[Callable[..., Array], int, int]:
    """A random function of one rank, its whole columns, and its columns at the end."""
    draw = random.Random(seed)
    columns = width = size * size * draw.choice([2, 4])
    steps: list[str] = []
    for _ in range(6):
        kinds = ["tanh", "own", "psum", "pmax"]
        if width * size <= MOST_COLUMNS:
            kinds.append("all_gather")
        if width % size == 0 and width > size:
            kinds += ["psum_scatter", "all_to_all"]
        steps.append(draw.choice(kinds))
        width = {"all_gather": width * size, "psum_scatter": width // size}.get(steps[-1], width)

    def rank(weight: Array, x: Array) -> Array:
        for step in steps:
            if step == "tanh":
                x = jnp.tanh(x)
            elif step == "own":
                x = x * weight[0] + weight[1]
            elif step == "psum":
                x = lax.psum(x, AXIS) / size
            elif step == "pmax":
                x = x + lax.stop_gradient(lax.pmax(x, AXIS))
            elif step == "all_gather":
                x = lax.all_gather(x, AXIS, axis=1, tiled=True)
            elif step == "psum_scatter":
                x = lax.psum_scatter(x, AXIS, scatter_dimension=1, tiled=True)
            else:
                # the vmap of jax needs an argument that differs among the ranks
                parts = (x + 0 * weight[0]).reshape(x.shape[0], size, -1)
                x = lax.all_to_all(parts, AXIS, 1, 1, tiled=True).reshape(x.shape)
        return lax.psum(x * weight[0], AXIS)

    return rank, columns, width


def mapped(rank: Callable[..., Array], size: int) -> Callable[..., Array]:
    mesh = AbstractMesh((size,), (AXIS,))
    specs = (PartitionSpec(AXIS), PartitionSpec())
    return jax.shard_map(
        rank, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(), check_vma=False
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_region_computes_what_its_ranks_do(seed: int) -> None:
    size = 2 + seed % 3
    rank, columns, _ = random_rank(seed, size)
    numbers = np.random.default_rng(seed)
    weight = jnp.asarray(numbers.normal(size=(2 * size,)), jnp.float32)
    x = jnp.asarray(numbers.normal(size=(5, columns)), jnp.float32)
    (equation,) = jax.make_jaxpr(mapped(rank, size))(weight, x).eqns
    (found,) = whole_function(equation)(weight, x)
    alone = jax.vmap(rank, in_axes=(0, None), out_axes=None, axis_name=AXIS)
    np.testing.assert_allclose(found, alone(weight.reshape(size, 2), x), rtol=2e-5, atol=1e-6)


def graph_of(seed: int, size: int) -> Graph:
    rank, columns, _ = random_rank(seed, size)

    def loss(params: Any, x: Array) -> Array:
        hidden = jnp.tanh(x @ params["first"])
        return jnp.square(mapped(rank, size)(params["scale"], hidden)).mean()

    def arguments(sizes: Any) -> tuple[Any, ...]:
        weights = {"first": S((16, columns), jnp.float32), "scale": S((2 * size,), jnp.float32)}
        return weights, S((sizes["batch"], 16), jnp.float32)

    return capture_jax(JaxRecipe("region", loss, arguments, {"batch": 8}))


def test_a_scan_of_ranks_is_written_out() -> None:
    def rank(weight: Array, x: Array) -> Array:
        def step(carry: Array, row: Array) -> tuple[Array, Array]:
            carry = jnp.tanh(carry * weight[0] + lax.psum(carry, AXIS) + row)
            return carry, carry.sum()

        total, sums = lax.scan(step, lax.pcast(x, AXIS, to="varying"), jnp.arange(3.0))
        return lax.psum(total * sums.sum() + lax.axis_index(AXIS), AXIS)

    numbers = np.random.default_rng(0)
    weight = jnp.asarray(numbers.normal(size=(4,)), jnp.float32)
    x = jnp.asarray(numbers.normal(size=(5, 2)), jnp.float32)
    mesh, specs = AbstractMesh((4,), (AXIS,)), (PartitionSpec(AXIS), PartitionSpec())
    region = jax.shard_map(rank, mesh=mesh, in_specs=specs, out_specs=PartitionSpec())
    (equation,) = jax.make_jaxpr(region)(weight, x).eqns
    (found,) = whole_function(equation)(weight, x)

    carries, total = [x] * 4, 0
    sums = [0.0] * 4
    for row in range(3):
        mean = sum(carries)
        carries = [jnp.tanh(own * weight[k] + mean + row) for k, own in enumerate(carries)]
        sums = [before + own.sum() for before, own in zip(sums, carries, strict=True)]
    total = sum(own * count + k for k, (own, count) in enumerate(zip(carries, sums, strict=True)))
    np.testing.assert_allclose(found, total, rtol=2e-5)


@pytest.mark.parametrize("seed", range(4))
def test_regions_are_planned_and_executed(seed: int) -> None:
    size = 2 if seed % 2 else 4
    graph, devices = graph_of(seed, size), topology(*[(4,), (2, 2), (2, 4), (4,)][seed])
    request = toy_request(graph=graph, topology=devices, budget=Budget(max_axes=3, seconds=None))
    found = planned(request)
    done = verify_documents(found, graph, devices, request.setup, request.calibration)
    assert done.outcome == "verified", done.detail


def test_a_region_with_checked_axes_is_planned_and_executed() -> None:
    def rank(up: Array, down: Array, x: Array) -> tuple[Array, Array]:
        hidden = jax.nn.softmax(jax.nn.relu(x @ up))
        whole = lax.all_gather(hidden, AXIS, axis=1, tiled=True)
        share = lax.psum_scatter(whole, AXIS, scatter_dimension=1, tiled=True)
        share, _ = lax.scan(lambda c, _: (jnp.tanh(c) * 1.5, None), share, None, length=2)
        return lax.psum(hidden @ down, AXIS), share * (1 + lax.axis_index(AXIS))

    columns = PartitionSpec(None, AXIS)
    region = jax.shard_map(
        rank,
        mesh=AbstractMesh((4, 2), (AXIS, "dp")),
        in_specs=(columns, PartitionSpec(AXIS), PartitionSpec()),
        out_specs=(PartitionSpec(), columns),
    )

    def loss(params: Any, x: Array) -> Array:
        y, share = region(params["up"], params["down"], x @ params["first"])
        return jnp.square(y).mean() + jnp.square(share).mean()

    def arguments(sizes: Any) -> tuple[Any, ...]:
        shapes = {"first": (16, 8), "up": (8, 32), "down": (32, 8)}
        weights = {name: S(shape, jnp.float32) for name, shape in shapes.items()}
        return weights, S((sizes["batch"], 16), jnp.float32)

    graph = capture_jax(JaxRecipe("region", loss, arguments, {"batch": 8}))
    request = toy_request(graph=graph, topology=topology(2, 4), budget=Budget(max_axes=3))
    done = verify_documents(
        planned(request), graph, request.topology, request.setup, request.calibration
    )
    assert done.outcome == "verified", done.detail


@pytest.mark.parametrize(
    ("rank", "specs", "message"),
    [
        (lambda x: lax.ppermute(x, "a", [(0, 1), (1, 0)]), ("a",), "has a ppermute"),
        (lambda x: lax.psum(x, "b"), ("a",), "psum over b, and its specs divide arrays over a"),
        (lambda x: x, ("a", "b"), "divides arrays over the axes a, b"),
    ],
)
def test_regions_with_errors_are_refused(
    rank: Callable[[Array], Array], specs: tuple[str, ...], message: str
) -> None:
    mesh = AbstractMesh((2, 2), ("a", "b"))
    spec = PartitionSpec(*specs)
    region = jax.shard_map(rank, mesh=mesh, in_specs=(spec,), out_specs=spec, check_vma=False)
    recipe = JaxRecipe(
        "region",
        lambda params, x: (region(x) * params).sum(),
        lambda _: (S((4, 4), jnp.float32), S((4, 4), jnp.float32)),
        {"batch": 8},
    )
    with pytest.raises(GraphError, match=message):
        capture_jax(recipe)
