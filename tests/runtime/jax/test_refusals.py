"""What the JAX runtime refuses, on one device, before anything is placed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from meshwright.capture import JaxRecipe, capture_jax
from meshwright.planfile import PlanFile
from meshwright.runtime.jax import Sharded, parallelize
from meshwright.schema import InvalidInput, Pipeline, PlanError, Setup
from meshwright_solver.planning.planner import plan
from tests.one_stage import one_stage_request
from tests.solver.small_graphs import topology

A = jax.Array
PARAMS, ROWS = jnp.ones((4, 4)), jnp.ones((8, 4))


def tame(params: A, x: A) -> A:
    return jnp.tanh(x @ params).sum()


def wild(params: A, x: A) -> A:
    return lax.lgamma(x @ params).sum()


def deep(params: A, x: A) -> A:
    return jnp.tanh(jnp.tanh(x @ params) @ params.T).sum()


def planned(function: Callable[[A, A], A], folder: Path, devices: int = 1, ranks: int = 1) -> Path:
    def arguments(sizes: Mapping[str, int]) -> tuple[Any, ...]:
        float32 = jnp.float32
        rows = jax.ShapeDtypeStruct((sizes["batch"], 4), float32)
        return jax.ShapeDtypeStruct((4, 4), float32), rows

    graph = capture_jax(JaxRecipe("small", function, arguments, {"batch": 8}))
    setup = Setup(microbatches=ranks)
    request = one_stage_request(
        graph=graph, topology=topology(devices), setup=setup, pipeline=Pipeline(ranks=ranks)
    )
    found = plan(request).plan
    assert found is not None
    file = folder / "plan.json"
    PlanFile(plan=found, graph=graph, topology=topology(devices), setup=request.setup).write(file)
    return file


def on_one(function: Callable[[A, A], A], file: Path) -> Sharded:
    return parallelize(function, (PARAMS, ROWS), file, devices=jax.devices()[:1])


def test_a_kind_without_a_kernel_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"op '.*lgamma.*' is of the kind 'jax.lgamma.default'"):
        on_one(wild, planned(wild, tmp_path))


def test_a_plan_for_more_devices_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="is for 2 ranks, this job has 1"):
        on_one(tame, planned(tame, tmp_path, devices=2))


def test_a_plan_of_several_stages_is_refused(tmp_path: Path) -> None:
    file = planned(deep, tmp_path, devices=2, ranks=2)
    with pytest.raises(PlanError, match="has several pipeline stages"):
        parallelize(deep, (PARAMS, ROWS), file, devices=[*jax.devices()[:1]] * 2)


def test_parameters_of_another_model_are_refused(tmp_path: Path) -> None:
    model = on_one(tame, planned(tame, tmp_path))
    with pytest.raises(PlanError, match=r"has the shape \[4, 4\] in the plan's graph .* \[4, 5\]"):
        model.place(jnp.ones((4, 5)))
    with pytest.raises(PlanError, match="has no parameter 'other'"):
        model.place({"other": PARAMS})


def test_a_batch_of_another_size_is_refused(tmp_path: Path) -> None:
    model = on_one(tame, planned(tame, tmp_path))
    with pytest.raises(InvalidInput, match=r"'x' has the shape \[7, 4\].*\[8, 4\]"):
        model.batch(ROWS[:7])
    with pytest.raises(InvalidInput, match=r"takes 1 arguments after its parameters \(x\), got 2"):
        model.batch(ROWS, ROWS)
