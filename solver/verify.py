"""Verification: is a plan right? Execute it, scaled down, and compare with the unsharded run.

Every value at rest, its gradient and every parameter's gradient, put together from all devices, has
to equal the unsharded run's, both passes, within TOLERANCE of the largest element of the tensor.
The layouts, groups and steps executed are those of the plan document; sizes are scaled down
(`solver.execution.scale`), the structure is the plan's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from meshwright.schema import Layout, Mesh, Plan, PlanError
from solver.execution.collectives import StepError
from solver.execution.executor import Run, ShardedRun, run_sharded, run_whole
from solver.execution.kernels import KERNELS
from solver.execution.scale import ScaleError, scale_down
from solver.execution.shards import Array, DisagreementError, Shards, unshard
from solver.problem import FLOATS, Problem

TOLERANCE = 1e-8  # chosen: float64 sums in another order, through a hundred layers
# chosen: what is zero but for rounding (the gradient of a key's bias) counts against the others
NEGLIGIBLE = 1e-6


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the execution showed.

    verified        all `tensors` and `gradients` compared are equal; the worst relative error
    failed          `detail` names the first tensor, op or step that is wrong
    not verifiable  `detail` says what cannot be executed; never a pass
    """

    outcome: Literal["verified", "failed", "not verifiable"]
    detail: str = ""
    tensors: int = 0
    gradients: int = 0
    worst_error: float = 0.0


def verify(problem: Problem, plan: Plan, *, seed: int = 0) -> Certificate:
    """Execute a plan on a scaled-down copy of its graph and compare."""
    unknown = sorted({op.op.kind for op in problem.ops if op.op.kind not in KERNELS})
    if unknown:
        return Certificate("not verifiable", f"not verifiable: {', '.join(unknown)}")
    try:
        scaled = scale_down(problem, plan.stages[0])
    except ScaleError as why:
        return Certificate("not verifiable", str(why))
    sources = random_sources(scaled.problem, seed)
    with np.errstate(all="ignore"):
        whole = run_whole(scaled.problem, sources)
    try:
        sharded = run_sharded(scaled.problem, scaled.stage, sources)
        return _compared(scaled.stage.mesh, whole, sharded)
    except (StepError, PlanError, DisagreementError) as wrong:
        return Certificate("failed", str(wrong))


def random_sources(problem: Problem, seed: int) -> dict[str, Array]:
    """Values for everything that no op makes; indices stay inside what they index."""
    generator = np.random.default_rng(seed)
    made = {port.tensor for op in problem.ops for port in op.outputs}
    bounds = _index_bounds(problem)
    sources: dict[str, Array] = {}
    for name, info in problem.tensors.items():
        if name in made:
            continue
        if info.tensor.dtype in FLOATS:
            sources[name] = generator.standard_normal(info.shape)
        elif info.tensor.dtype == "bool":
            sources[name] = generator.integers(0, 2, info.shape).astype(np.bool_)
        else:
            sources[name] = generator.integers(0, bounds.get(name, 2), info.shape)
    return sources


def _index_bounds(problem: Problem) -> Mapping[str, int]:
    """What integers of a source may reach: the rows that they look up, through what moves them."""
    bounds: dict[str, int] = {}
    for op in reversed(problem.ops):
        shapes = [problem.tensors[port.tensor].shape for port in op.inputs]
        if op.op.kind == "embedding":
            bounds[op.inputs[1].tensor] = min(
                shapes[0][0], bounds.get(op.inputs[1].tensor, shapes[0][0])
            )
        elif op.op.kind == "cross_entropy":
            bounds[op.inputs[1].tensor] = shapes[0][-1]
        else:
            passed = [bounds[port.tensor] for port in op.outputs if port.tensor in bounds]
            for port in op.inputs:
                if passed and problem.tensors[port.tensor].tensor.dtype not in FLOATS:
                    bounds[port.tensor] = min(*passed, bounds.get(port.tensor, passed[0]))
    return bounds


def _compared(mesh: Mesh, whole: Run, sharded: ShardedRun) -> Certificate:
    worst = 0.0
    for what, found, expected in (
        ("tensor", sharded.values, whole.values),
        ("gradient of", sharded.gradients, whole.gradients),
    ):
        floor = NEGLIGIBLE * max((_largest(array) for array in expected.values()), default=0.0)
        for root, (layout, shards) in found.items():
            error = _error(layout, shards, mesh, expected.get(root), floor)
            if error > TOLERANCE:
                return Certificate(
                    "failed",
                    f"{what} {root!r} in {layout} differs from the unsharded run by {error:.1e} "
                    "of its largest element",
                    worst_error=error,
                )
            worst = max(worst, error)
    missing = [
        root for root in whole.gradients if root in sharded.values and root not in sharded.gradients
    ]
    if missing:
        return Certificate("failed", f"no device has a gradient of {missing[0]!r}")
    return Certificate("verified", "", len(sharded.values), len(sharded.gradients), worst)


def _largest(array: Array) -> float:
    return float(np.abs(array).max(initial=0.0)) if array.dtype.kind == "f" else 0.0


def _error(
    layout: Layout, shards: Shards, mesh: Mesh, expected: Array | None, floor: float
) -> float:
    found = unshard(shards, layout, mesh)
    if expected is None:
        return _largest(found)
    if found.dtype.kind != "f":
        return 0.0 if np.array_equal(found, expected) else 1.0
    difference = np.abs(found - expected)
    if not np.isfinite(difference).all():
        return float("inf")
    scale = max(_largest(expected), floor) or 1.0
    return float(difference.max(initial=0.0)) / scale
