"""Buckets: one collective for several tensors gives each what its own would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meshwright.schema import (
    Bucket,
    Dim,
    Layout,
    Mesh,
    MeshAxis,
    Plan,
    Redistribution,
    Stage,
    Step,
    SubDim,
)
from meshwright_solver.problem.problem import Problem
from meshwright_solver.verification.execution.buckets import Buckets, ExecutedStep, run_bucket
from meshwright_solver.verification.execution.collectives import StepError, run_step
from meshwright_solver.verification.execution.executor import run_sharded
from meshwright_solver.verification.execution.scale_down import scale_down
from meshwright_solver.verification.execution.shards import Shards, shard
from meshwright_solver.verification.verify import random_sources, verify
from tests.solver.requests import mlp_request, planned, problem_of
from tests.solver.small_graphs import topology

MESH = Mesh(axes=(MeshAxis(name="node", size=2, level="node"),
                  MeshAxis(name="gpu", size=3, level="gpu")))  # fmt: skip


def layout(
    *sizes: int,
    on: dict[int, tuple[str, ...]] | None = None,
    partial: tuple[str, ...] = (),
    padded: bool = False,
) -> Layout:
    """One dim for each size, cut over axes; what three do not divide in chunks of ceil(n / 3)."""
    dims = []
    for d, size in enumerate(sizes):
        axes = (on or {}).get(d, ())
        ways = MESH.size(axes)
        span = None if size % ways == 0 else -(-size // ways) * ways
        dims.append(Dim(parts=(SubDim(size=size, axes=axes, span=span),)))
    return Layout(dims=tuple(dims), partial=dict.fromkeys(partial, "sum"), padded=padded)


def partial_shards(own: Layout, seed: int) -> Shards:
    """Every device has numbers of its own to add."""
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(part.shape) for part in shard(np.zeros(own.shape), own, MESH)]


def ran(kind: str, before: Layout, after: Layout, held: Shards) -> ExecutedStep:
    return ExecutedStep(before, after, held, run_step(kind, ("gpu",), held, before, after, MESH))


def test_three_devices_gather_two_tensors_at_once():
    # of tensors [0 .. 5] and [10 .. 12] gpu g sends the buffer [2g, 2g + 1, 10 + g]
    whole = [np.arange(6.0), np.arange(10.0, 13.0)]
    runs = []
    for own in whole:
        cut = layout(own.size, on={0: ("gpu",)})
        runs.append(ran("all_gather", cut, layout(own.size), shard(own, cut, MESH)))
    found = run_bucket("all_gather", ("gpu",), runs, MESH)
    for own, shards in zip(whole, found, strict=True):
        assert len(shards) == 6
        assert all(np.array_equal(part, own) for part in shards)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("kind", ["all_gather", "all_reduce", "reduce_scatter"])
def test_one_collective_for_all_gives_what_one_for_each_does(kind: str, padded: bool) -> None:
    runs = []
    for seed, (sizes, dim) in enumerate([((6, 4), 0), ((5, 7), 1), ((7,), 0), ((2, 3, 8), 2)]):
        cut, whole = layout(*sizes, on={dim: ("gpu",)}, padded=padded), layout(*sizes)
        if kind == "all_gather":
            array = np.random.default_rng(seed).standard_normal(sizes)
            runs.append(ran(kind, cut, whole, shard(array, cut, MESH)))
            continue
        before = layout(*sizes, partial=("gpu",))
        after = whole if kind == "all_reduce" else cut
        runs.append(ran(kind, before, after, partial_shards(before, seed)))
    found = run_bucket(kind, ("gpu",), runs, MESH)
    for own, together in zip(runs, found, strict=True):
        assert all(map(np.array_equal, own.result, together))
    # it is no step over the other axis
    other = run_bucket(kind, ("node",), runs, MESH)
    assert not all(map(np.array_equal, runs[0].result, other[0]))


def test_sums_in_another_order_are_equal() -> None:
    """Of one element a device: numpy adds eight of them in pairs, and whole rows one by one."""
    mesh = Mesh(axes=(MeshAxis(name="gpu", size=8, level="gpu"),))
    before = Layout(dims=(Dim(parts=(SubDim(size=8),)),), partial={"gpu": "sum"})
    after = Layout(dims=(Dim(parts=(SubDim(size=8, axes=("gpu",)),)),))
    moved, ran = [], {}
    for seed, name in enumerate(("a", "b")):
        held = list(np.random.default_rng(seed).standard_normal((8, 8)))
        step = Step(kind="reduce_scatter", axes=("gpu",), payload_bytes=32, ns=1.0, to=after)
        made = run_step("reduce_scatter", ("gpu",), held, before, after, mesh)
        ran[id(step)] = ExecutedStep(before, after, held, made)
        moved.append(Redistribution(tensor=name, op=None, traffic="gradient", backward=(step,)))
    bucket = Bucket(collective="reduce_scatter", axes=("gpu",), direction="backward",
                    tensors=("a", "b"), payload_bytes=64)  # fmt: skip
    stage = Stage(mesh=mesh, ops=(), tensors=(), parameters=(), redistributions=tuple(moved),
                  buckets=(bucket,))  # fmt: skip
    assert Buckets(stage).check(ran, mesh) == 1
    wrong = {
        key: replace(one, result=[part + 1 for part in one.result]) for key, one in ran.items()
    }
    with pytest.raises(StepError, match="makes another 'a' than alone"):
        Buckets(stage).check(wrong, mesh)


def plan_with_buckets() -> tuple[Problem, Plan]:
    request = mlp_request(16, topology(2, 4), rows=32, width=256)
    found = planned(request)
    assert len(found.stages[0].buckets) > 1
    return problem_of(request), found


def test_all_buckets_of_a_plan_run():
    own, found = plan_with_buckets()
    scaled = scale_down(own, found.stages[0])
    ran = run_sharded(scaled.problem, scaled.stage, random_sources(scaled.problem, seed=0))
    assert ran.buckets == len(found.stages[0].buckets)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ({"axes": ()}, "makes no such step"),
        ({"direction": "forward", "collective": "all_reduce"}, "makes no such step"),
        ({"tensors": ("w up", "w up")}, "makes no such step"),
        ({"tensors": ("w up", "ids")}, "makes no such step"),
    ],
)
def test_a_bucket_of_steps_that_no_tensor_makes_is_caught(damage: dict[str, Any], why: str) -> None:
    own, found = plan_with_buckets()
    (stage,) = found.stages
    first, *others = stage.buckets
    buckets: tuple[Bucket, ...] = (first.model_copy(update=damage), *others)
    lie = found.model_copy(update={"stages": (stage.model_copy(update={"buckets": buckets}),)})
    certificate = verify(own, lie)
    assert certificate.outcome == "failed"
    assert why in certificate.detail
